"""How alike the heads of an attention are: a penalty keeps them apart.

Axes: B rows, T segment, N heads, H head width.
"""

from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.linear_token_losses import at_least_float32


def head_similarity(heads: Tensor, valid: Tensor) -> Tensor:
    """Mean cosine between the outputs of all pairs of heads, over tokens.

    A head paired with itself counts, as in the paper. The mean over all
    pairs is then the squared length of the mean of the heads' directions, so
    that it lies between 0 and 1 and no N x N matrix is needed. Tokens that
    do not count add 0 to the mean: so equal parts of a batch, on devices of
    their own, have the mean of the batch as their mean.

    Args:
        heads: float tensor of shape `(batch, segment_length, num_heads,
            head_dim)`, what each head gives for a token.
        valid: bool tensor of shape `(batch or 1, segment_length)`, `False` on
            tokens that do not count.

    Returns:
        Scalar in float32 or wider.

    Reference:
        Li et al. 2018 (arXiv 1810.10183), section 3.2, disagreement on
        outputs; there it is negated and maximised.
    """
    heads = at_least_float32(heads)
    lengths = ops.sum(ops.square(heads), axis=-1, keepdims=True)
    directions = heads * ops.rsqrt(lengths + 1e-12)
    means = ops.mean(directions, axis=2)  # (B, T, H)
    cosines = ops.sum(ops.square(means), axis=-1)  # (B, T)
    return ops.mean(ops.where(valid, cosines, 0))
