"""From distances to keys and back (Appendix B).

Axes: B rows, T segment, S = M + T keys, N heads.
"""

from collections.abc import Sequence

from keras import ops

from keras_txl.aliases import Tensor


def relative_shift(scores: Tensor) -> Tensor:
    """Align scores indexed by distance with scores indexed by key.

    Column `r` of the input holds the score for distance `S - 1 - r`. Entry
    `(i, j)` of the result is the input's `(i, T - 1 - i + j)`; entries with
    `j > M + i` lie in the future, are meaningless, and must be masked.

    Args:
        scores: float tensor of shape `(batch, num_heads, segment_length,
            key_length)`.

    Returns:
        Tensor of the same shape and dtype.

    Raises:
        ValueError: if `key_length` is shorter than `segment_length`.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), Appendix B.
    """
    return shift_padded(ops.pad(scores, [[0, 0], [0, 0], [0, 0], [0, 1]]))


def shift_padded(scores: Tensor) -> Tensor:
    """`relative_shift` of all columns but the last, which may hold anything.

    Who has the product of queries and distances still to make gives it this
    column, and saves a copy of all scores.

    Args:
        scores: float tensor of shape `(batch, num_heads, segment_length,
            key_length + 1)`.

    Returns:
        Tensor of shape `(batch, num_heads, segment_length, key_length)`.
    """
    batch, num_heads, queries, columns = ops.shape(scores)
    keys = columns - 1
    if isinstance(queries, int) and isinstance(keys, int) and keys < queries:
        raise ValueError(
            "`key_length` must be at least `segment_length`: every query sees "
            f"itself. Received: segment_length={queries}, key_length={keys}. "
            "Put the segment itself at the end of the keys."
        )
    # One slice of a plain row: TensorFlow is slow to differentiate others.
    rows = batch * num_heads
    shifted = ops.reshape(scores, (rows, queries * columns))
    shifted = ops.slice(shifted, (0, queries - 1), (rows, queries * keys))
    return ops.reshape(
        shifted, (batch, num_heads, queries, keys)
    )  # (B, N, T, S)


def weights_by_distance(weights: Tensor) -> Tensor:
    """Undo `relative_shift`: index the weights of keys by distance.

    Args:
        weights: float tensor of shape `(batch, num_heads, segment_length,
            key_length)`, zeros on keys that come after the query.

    Returns:
        Tensor of that shape; column `r` is the weight at distance
        `key_length - 1 - r`.
    """
    batch, num_heads, queries, keys = ops.shape(weights)
    moved = ops.reshape(weights, (batch, num_heads, keys, queries))
    moved = ops.pad(moved, [[0, 0], [0, 0], [1, 0], [0, 0]])
    moved = ops.reshape(moved, (batch, num_heads, queries, keys + 1))
    return moved[..., 1:]


def values_by_distance(
    weights: Sequence[Tensor], relative_value: Tensor
) -> Tensor:
    """Weigh what each distance gives, apart for memory and segment.

    Args:
        weights: float tensors of shape `(batch, num_heads, segment_length,
            keys)`: of memory, if there is one, and of the segment.
        relative_value: float tensor of shape `(key_length, head_dim)`, row
            `r` for distance `key_length - 1 - r`.

    Returns:
        Tensor of shape `(batch, segment_length, num_heads, head_dim)`.
    """
    *memory, segment = weights
    slots = ops.shape(relative_value)[0] - ops.shape(segment)[-1]
    found = _weigh(segment, relative_value[slots:])
    for part in memory:
        part = ops.concatenate([part, ops.zeros_like(segment)], axis=-1)
        found = _weigh(part, relative_value) + found
    return found


def _weigh(weights: Tensor, relative_value: Tensor) -> Tensor:
    return ops.einsum(
        "bnts,sh->btnh", weights_by_distance(weights), relative_value
    )
