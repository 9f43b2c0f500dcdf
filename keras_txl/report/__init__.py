"""What a model makes of a text, measured and drawn."""

from keras_txl.report.measurements import ReadingMeasurements
from keras_txl.report.measurements import measure_reading
from keras_txl.report.written import write_report

__all__ = ["ReadingMeasurements", "measure_reading", "write_report"]
