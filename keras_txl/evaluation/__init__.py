"""Evaluation protocols: losses of whole documents, and their error bars."""

from keras_txl.evaluation.bootstrap import BootstrapInterval
from keras_txl.evaluation.bootstrap import bootstrap_difference
from keras_txl.evaluation.evaluate_stream import StreamEvaluation
from keras_txl.evaluation.evaluate_stream import evaluate_stream
from keras_txl.evaluation.text_scores import TextScores
from keras_txl.evaluation.text_scores import score_texts

__all__ = [
    "BootstrapInterval",
    "StreamEvaluation",
    "TextScores",
    "bootstrap_difference",
    "evaluate_stream",
    "score_texts",
]
