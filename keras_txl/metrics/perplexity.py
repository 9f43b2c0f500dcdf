"""Perplexity, the figure reported on word-level corpora."""

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.metrics.token_loss_metric import TokenLossMetric


@keras.saving.register_keras_serializable(package="keras_txl")
class Perplexity(TokenLossMetric):
    """Exponential of the mean loss per token.

    Args:
        name: name of the metric in logs.
        dtype: dtype of the totals. Default: float32.

    Call arguments:
        y_true: integer targets of shape `(B, T)`.
        y_pred: logits of shape `(B, T, V)`.
        sample_weight: weights of shape `(B, T)` or `(B,)`, or None for 1
            everywhere.

    Example:

    >>> metric = Perplexity()
    >>> metric.update_state([[0, 1]], np.zeros((1, 2, 50)))
    >>> print(f"{float(metric.result()):.2f}")
    50.00
    """

    def __init__(
        self, name: str = "perplexity", dtype: str | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)

    def result(self) -> Tensor:
        return ops.exp(self.mean_loss())
