"""What a model does with its memory: proofs and measurements."""

from keras_txl.analysis.leak_report import LeakCheck
from keras_txl.analysis.leak_report import LeakReport
from keras_txl.analysis.leaks import assert_no_leaks
from keras_txl.analysis.leaks import check_isolation

__all__ = [
    "LeakCheck",
    "LeakReport",
    "assert_no_leaks",
    "check_isolation",
]
