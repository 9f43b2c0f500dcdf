"""Where heads look: how far back, and how widely.

Axes: B rows, T segment, S = M + T keys, L layers, N heads.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.analysis.segment_reading import measured_segments
from keras_txl.layers.relative_shift import weights_by_distance
from keras_txl.models.attention_watch import row_entropy
from keras_txl.models.attention_watch import watched_attention


def attention_by_distance(
    lm: Any, documents: Any, **protocol: Any
) -> np.ndarray:
    """How much of its attention each head gives to each distance.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        **protocol: arguments of `EvaluationProtocol`.

    Returns:
        float64 array of shape `(num_layers, num_heads, key_length)`: entry d
        is the mean attention weight of the token d places before the one that
        asks, itself at 0. The entries of a head sum to 1.

    Example:

    ```python
    mass = keras_txl.analysis.attention_by_distance(
        lm, documents, segment_length=8
    )
    print(mass[:, :, 1:5].sum(axis=-1))  # on the last four tokens
    ```
    """

    def by_distance(
        inputs: dict[str, Tensor], memory: Memory, counted: Tensor
    ) -> tuple[Tensor, Memory]:
        with watched_attention(lm.backbone) as found:
            _, memory = lm.backbone.call_with_memory(inputs, memory)
        sums = [
            ops.einsum(
                "bnts,bt->ns",
                ops.cast(weights_by_distance(weights), "float32"),
                counted,
            )
            for weights in found
        ]
        return ops.flip(ops.stack(sums), axis=-1), memory  # (L, N, S)

    return _mean(lm, documents, by_distance, protocol)


def attention_entropy(lm: Any, documents: Any, **protocol: Any) -> np.ndarray:
    """How widely each head looks: the mean entropy of its attention.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        **protocol: arguments of `EvaluationProtocol`.

    Returns:
        float64 array of shape `(num_layers, num_heads)` in nats: 0 is a look
        at one token, log(n) an equal look at n tokens.
    """

    def entropy(
        inputs: dict[str, Tensor], memory: Memory, counted: Tensor
    ) -> tuple[Tensor, Memory]:
        with watched_attention(lm.backbone) as found:
            _, memory = lm.backbone.call_with_memory(inputs, memory)
        sums = [
            ops.sum(row_entropy(weights) * counted[:, None], axis=(0, 2))
            for weights in found
        ]
        return ops.stack(sums), memory  # (L, N)

    return _mean(lm, documents, entropy, protocol)


def _mean(
    lm: Any, documents: Any, measure: Any, protocol: dict[str, Any]
) -> np.ndarray:
    total: Any = 0.0
    tokens = 0
    for found, count, _ in measured_segments(
        lm, documents, measure, **protocol
    ):
        total = total + found.astype("float64")
        tokens += count
    return np.asarray(total / tokens)
