"""Metrics that are fed with token losses instead of logits.

A model that returns hidden states has no logits to give to a metric. Its loss
knows the loss of each token and passes it on to these.

Axes: B rows, T segment.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.metrics import BitsPerCharacter
from keras_txl.metrics import Perplexity
from keras_txl.metrics.token_loss_metric import TokenLossMetric


class TokenMetrics:
    """The metrics of a compiled model that reads token losses.

    It is no layer and no metric, so that Keras does not feed what is in it.

    Args:
        metrics: as for `compile`, ignoring `sample_weight`.
        weighted_metrics: as for `compile`, honouring it.

    Raises:
        ValueError: if one of them is not fed with token losses.
    """

    def __init__(self, metrics: Any = None, weighted_metrics: Any = None):
        self.plain = _checked("metrics", metrics)
        self.weighted = _checked("weighted_metrics", weighted_metrics)

    @property
    def metrics(self) -> list[TokenLossMetric]:
        """All of them."""
        return [*self.plain, *self.weighted]

    def add_losses(
        self, losses: Tensor, valid: Tensor, weights: Tensor
    ) -> None:
        """Count a batch of token losses.

        Args:
            losses: float tensor of shape `(batch, segment_length)` in nats.
            valid: float tensor of that shape, 0 on padding, else 1.
            weights: float tensor of that shape, 0 on padding.
        """
        losses = ops.stop_gradient(losses)
        for metric in self.plain:
            metric.add_losses(losses, valid)
        for metric in self.weighted:
            metric.add_losses(losses, weights)

    def compile_config(self) -> dict[str, Any]:
        """The two arguments of `compile`, serialized."""
        return {
            "metrics": keras.saving.serialize_keras_object(self.plain),
            "weighted_metrics": keras.saving.serialize_keras_object(
                self.weighted
            ),
        }


def check_deferred_loss(loss: Any) -> None:
    """Raise if a loss on logits is given to a model that returns none."""
    if loss is not None:
        raise ValueError(
            "`loss` must be 'auto' for a model with `cutoffs`, `loss_chunk` "
            "or `num_sampled`: it returns hidden states, and its own loss "
            f"reads these. Received: loss={loss!r}. Leave `loss` out, or "
            "build the backbone without these arguments."
        )


def _checked(name: str, metrics: Any) -> list[TokenLossMetric]:
    found = []
    for metric in keras.tree.flatten(metrics):
        if metric is None:
            continue
        if not isinstance(metric, TokenLossMetric):
            own = f"{Perplexity.__name__}` or `{BitsPerCharacter.__name__}"
            raise ValueError(
                f"`{name}` must be metrics that read token losses: a model "
                "with `cutoffs`, `loss_chunk` or `num_sampled` returns hidden "
                f"states, no logits. Received: {metric!r}. Use "
                f"`keras_txl.metrics.{own}`, or build the backbone without "
                "these arguments."
            )
        found.append(metric)
    return found
