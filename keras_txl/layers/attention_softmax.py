"""From scores to weights: capped, masked, normalised.

Axes: B rows, N heads, T segment, S keys.
"""

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
