"""Bits per character, the figure reported on byte and character corpora."""

import math

import keras

from keras_txl.aliases import Tensor
from keras_txl.metrics.token_loss_metric import TokenLossMetric


@keras.saving.register_keras_serializable(package="keras_txl")
class BitsPerCharacter(TokenLossMetric):
    """Mean loss per token in bits; for bytes it is bits per byte.

    Args:
        name: name of the metric in logs.
        dtype: dtype of the totals. Default: float32.

    Call arguments:
        y_true: integer targets of shape `(B, T)`.
        y_pred: logits of shape `(B, T, V)`.
        sample_weight: weights of shape `(B, T)` or `(B,)`, or None for 1
            everywhere.

    Example:

    >>> metric = BitsPerCharacter()
    >>> metric.update_state([[0, 1]], np.zeros((1, 2, 256)))
    >>> print(f"{float(metric.result()):.2f}")
    8.00
    """

    def __init__(
        self, name: str = "bits_per_character", dtype: str | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)

    def result(self) -> Tensor:
        return self.mean_loss() / math.log(2)
