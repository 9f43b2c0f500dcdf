"""Attention weights of a model while it reads, and how wide they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras import ops

from keras_txl.aliases import Tensor


@contextmanager
def watched_attention(backbone: Any) -> Iterator[list[Tensor]]:
    """Collects the attention weights of every layer that is called within.

    Yields:
        List that grows by a tensor `(batch, num_heads, segment_length,
        key_length)` a layer.
    """
    found: list[Tensor] = []
    layers = [block.attention for block in backbone.transformer_layers]
    for attention in layers:
        attention.watch_weights = found.append
    try:
        yield found
    finally:
        for attention in layers:
            attention.watch_weights = None


def row_entropy(weights: Tensor) -> Tensor:
    """Entropy of distributions along the last axis, in nats, in float32."""
    weights = ops.cast(weights, "float32")
    logarithms = ops.log(ops.where(weights > 0, weights, 1.0))
    return -ops.sum(weights * logarithms, axis=-1)
