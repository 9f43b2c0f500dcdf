"""From scores to weights: capped, masked, normalised.

Axes: B rows, N heads, T segment, S keys.
"""

import functools
from collections.abc import Sequence

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.linear_token_losses import at_least_float32


def cap_logits(scores: Tensor, cap: float | None) -> Tensor:
    """Squeeze scores smoothly into `(-cap, cap)`.

    `cap * tanh(scores / cap)`: small scores stay what they are, and no score
    runs away, however large queries and keys grow in a long training.

    Args:
        scores: float tensor of any shape.
        cap: float above 0. `None`: the scores as they are.

    Returns:
        Tensor of the same shape and dtype.

    Reference:
        Gemma 2 (arXiv 2408.00118), section 2, there with a cap of 50; after
        Bello et al. 2016 (arXiv 1611.09940).
    """
    if cap is None:
        return scores
    return ops.multiply(ops.tanh(ops.multiply(scores, 1 / cap)), cap)


def masked_softmax(
    scores: Tensor, mask: Tensor, logit_cap: float | None = None
) -> Tensor:
    """Softmax over the visible keys, in float32 or wider.

    Args:
        scores: float tensor of shape `(batch, num_heads, segment_length,
            key_length)`.
        mask: bool tensor that broadcasts to it, `True` where a query sees a
            key. A row that sees nothing gives uniform finite weights; the
            caller drops its result.
        logit_cap: see `cap_logits`, which acts before the mask.

    Returns:
        Tensor of the shape and dtype of `scores`. Hidden keys get exactly 0.
    """
    if scores.shape[-1] == 1:  # Keras warns about a softmax over one entry
        return ops.ones_like(scores)
    dtype = scores.dtype
    scores = cap_logits(at_least_float32(scores), logit_cap)
    scores = ops.where(mask, scores, ops.cast(-1e30, scores.dtype))
    return ops.cast(ops.softmax(scores, axis=-1), dtype)


def masked_exponentials(
    scores: Sequence[Tensor],
    masks: Sequence[Tensor],
    logit_cap: float | None = None,
) -> tuple[list[Tensor], Tensor | None]:
    """`masked_softmax` over keys in parts, before the division by the sum.

    Each part has sums of its own, added last: keys that are all hidden add
    zeros. The division is left to the caller, who has less to divide once the
    values are weighed. Types below float32 are divided here, as their sums
    could overflow, and so are keys that are all in one part, where the softmax
    of the backend is faster.

    Args:
        scores: float tensors of shape `(batch, num_heads, segment_length,
            keys)`.
        masks: bool tensors that broadcast to them.
        logit_cap: see `masked_softmax`.

    Returns:
        Tensors of the shapes and dtype of `scores`, and their sum over all
        keys of shape `(batch, num_heads, segment_length, 1)`; `None` for
        tensors that are divided by it.
    """
    if len(scores) == 1:
        return [masked_softmax(scores[0], masks[0], logit_cap)], None
    dtype = keras.backend.standardize_dtype(scores[0].dtype)
    scores = [cap_logits(at_least_float32(part), logit_cap) for part in scores]
    scores = [
        ops.where(mask, part, ops.cast(-1e30, part.dtype))
        for mask, part in zip(masks, scores, strict=True)
    ]
    # Not `maximum`, which rounds float64 to float32 on PyTorch.
    largest = [
        ops.max(ops.stop_gradient(part), axis=-1, keepdims=True)
        for part in scores
    ]
    largest = ops.max(
        ops.concatenate(largest, axis=-1), axis=-1, keepdims=True
    )  # (B, N, T, 1)
    weights = [ops.exp(ops.subtract(part, largest)) for part in scores]
    total = functools.reduce(
        ops.add, [ops.sum(part, axis=-1, keepdims=True) for part in weights]
    )
    if dtype in ("float32", "float64"):
        return weights, total
    return [ops.cast(part / total, dtype) for part in weights], None
