"""Evaluation protocols: losses of whole documents, and their error bars."""

from keras_txl.evaluation.bootstrap import BootstrapInterval
from keras_txl.evaluation.bootstrap import bootstrap_difference
from keras_txl.evaluation.bootstrap import bootstrap_interval
from keras_txl.evaluation.dynamic_weights import GradientScales
from keras_txl.evaluation.evaluate_stream import StreamEvaluation
from keras_txl.evaluation.evaluate_stream import evaluate_stream
from keras_txl.evaluation.gradient_scales import gradient_scales
from keras_txl.evaluation.protocol import EvaluationProtocol
from keras_txl.evaluation.protocol import published_protocol
from keras_txl.evaluation.text_scores import TextScores
from keras_txl.evaluation.text_scores import score_texts
from keras_txl.evaluation.token_losses import segment_reader
from keras_txl.evaluation.token_losses import token_losses

__all__ = [
    "BootstrapInterval",
    "EvaluationProtocol",
    "GradientScales",
    "StreamEvaluation",
    "TextScores",
    "bootstrap_difference",
    "bootstrap_interval",
    "evaluate_stream",
    "gradient_scales",
    "published_protocol",
    "score_texts",
    "segment_reader",
    "token_losses",
]
