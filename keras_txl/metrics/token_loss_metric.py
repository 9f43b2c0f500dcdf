"""Mean loss per token over everything seen, in nats.

Figures of language models are functions of the average loss per token. The
average of the figures of batches is another, wrong number: losses of 2 and 4
nats mean perplexity exp(3) = 20, not (exp(2) + exp(4)) / 2 = 31.

Axis letters: B rows, T tokens, V vocabulary.
"""

import keras
from keras import ops

from keras_txl.aliases import Tensor


def token_losses(targets: Tensor, logits: Tensor) -> Tensor:
    """Return minus the log-probability of each target.

    Args:
        targets: integer tensor of shape `(..., T)`.
        logits: float tensor of shape `(..., T, V)`, any dtype.

    Returns:
        Tensor of shape `(..., T)` in nats, float32 or wider.
    """
    if keras.backend.standardize_dtype(logits.dtype) != "float64":
        logits = ops.cast(logits, "float32")
    return ops.sparse_categorical_crossentropy(
        ops.cast(targets, "int32"), logits, from_logits=True
    )


class TokenLossMetric(keras.metrics.Metric):
    """Base of the metrics that are functions of the mean token loss.

    A subclass gives `result`. Totals are float32 whatever the policy.

    Args:
        name: name of the metric in logs.
        dtype: dtype of the totals. Default: float32.

    Call arguments:
        y_true: integer targets of shape `(B, T)`.
        y_pred: logits of shape `(B, T, V)`.
        sample_weight: weights of shape `(B, T)` or `(B,)`, or None for 1
            everywhere. A target of weight 0 may hold any id.
    """

    # Keras reads it to know which way is better (`mode="auto"` of callbacks).
    _direction = "down"

    def __init__(self, name: str, dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype or "float32")
        self.total_nats = self.add_variable(
            shape=(), initializer="zeros", dtype=self.dtype, name="total_nats"
        )
        self.total_weight = self.add_variable(
            shape=(), initializer="zeros", dtype=self.dtype, name="total_weight"
        )

    def update_state(
        self,
        y_true: Tensor,
        y_pred: Tensor,
        sample_weight: Tensor | None = None,
    ) -> None:
        y_true = ops.convert_to_tensor(y_true)
        y_pred = ops.convert_to_tensor(y_pred)
        if len(y_true.shape) == len(y_pred.shape):  # (B, T, 1)
            y_true = ops.squeeze(y_true, axis=-1)
        if len(y_true.shape) != len(y_pred.shape) - 1:
            raise ValueError(
                "`y_true` must hold one target id for each row of logits in "
                f"`y_pred`. Received: y_true.shape={tuple(y_true.shape)}, "
                f"y_pred.shape={tuple(y_pred.shape)}. Pass logits of shape "
                "(batch, length, vocabulary) and ids of shape (batch, length)."
            )
        if sample_weight is None:
            weight = ops.ones(ops.shape(y_true), dtype="float32")
        else:
            weight = ops.cast(
                ops.convert_to_tensor(sample_weight), dtype="float32"
            )
            while len(weight.shape) < len(y_true.shape):
                weight = weight[..., None]
            weight = ops.broadcast_to(weight, ops.shape(y_true))
            # Ids of padding, such as -1, exist in no vocabulary.
            y_true = ops.where(weight == 0, 0, ops.cast(y_true, "int32"))
        self.add_losses(token_losses(y_true, y_pred), weight)

    def add_losses(self, nats: Tensor, weight: Tensor) -> None:
        """Count losses that are known already.

        Args:
            nats: float token losses of shape `(B, T)`.
            weight: float weights of the same shape.
        """
        nats = ops.convert_to_tensor(nats, "float32")
        weight = ops.convert_to_tensor(weight, "float32")
        # 0 * inf would be nan where a loss without weight overflows.
        nats = ops.where(weight == 0, 0.0, nats * weight)
        self.total_nats.assign_add(ops.cast(ops.sum(nats), self.dtype))
        self.total_weight.assign_add(ops.cast(ops.sum(weight), self.dtype))

    def mean_loss(self) -> Tensor:
        """Return nats per token so far, 0 before the first token."""
        return ops.divide_no_nan(self.total_nats, self.total_weight)

    def reset_state(self) -> None:
        self.total_nats.assign(ops.zeros((), dtype=self.dtype))
        self.total_weight.assign(ops.zeros((), dtype=self.dtype))
