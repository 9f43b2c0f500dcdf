"""Keys in two parts, memory and segment, which are never summed together.

Axes: M memory slots, T segment, S = M + T keys.
"""

from collections.abc import Sequence

import keras
from keras import ops

from keras_txl.aliases import Tensor


def split_keys(rows: Tensor, slots: int | Tensor, axis: int) -> list[Tensor]:
    """Memory and segment; the segment alone where there is no memory.

    A graph of free lengths (an export) keeps them together: what tells the
    lengths of parts is more than all runtimes read, and one sum is right
    within the tolerance of exports.

    Args:
        rows: tensor with S keys along `axis`.
        slots: int M, or a scalar tensor where it is not known yet.
        axis: int, counted from the front.

    Returns:
        List of one or two tensors with M and T keys.
    """
    if not isinstance(slots, int) or slots == 0:
        return [rows]
    if keras.backend.backend() == "torch":  # slices are views
        front = (slice(None),) * axis
        return [
            rows[(*front, slice(slots))],
            rows[(*front, slice(slots, None))],
        ]
    return list(ops.split(rows, [slots], axis=axis))


def known_slots(context: Tensor, segment: Tensor) -> int | None:
    """M of a context `(batch, M + T, ...)`; `None` in a graph that leaves it.

    Args:
        context: memory and segment.
        segment: tensor of shape `(batch, T, ...)`.
    """
    keys, queries = context.shape[1], segment.shape[1]
    return None if keys is None or queries is None else keys - queries


def join_keys(parts: Sequence[Tensor], axis: int) -> Tensor:
    """What `split_keys` came from."""
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=axis)


def memory_slots(parts: Sequence[Tensor]) -> int | Tensor:
    """M of parts `(batch, keys, ...)`, 0 where there is no memory."""
    return ops.shape(parts[0])[1] if len(parts) == 2 else 0


def add_unseen_slot(
    key: Tensor, value: Tensor, terms: dict[str, Tensor], mask: Tensor
) -> tuple[list[Tensor], list[Tensor], dict[str, Tensor], Tensor]:
    """No memory as a memory of one slot that no query sees.

    XLA compiles a program without a memory part to other instructions, whose
    last bits differ.

    Args:
        key: tensor of shape `(batch, segment_length, num_heads, head_dim)`.
        value: tensor of that shape.
        terms: tensors of shape `(segment_length, ...)`, by name.
        mask: bool tensor of shape `(batch or 1, 1, segment_length,
            segment_length)`.

    Returns:
        Keys and values of slot and segment, and the others with the slot in
        front.
    """
    return (
        [ops.zeros_like(key[:, :1]), key],
        [ops.zeros_like(value[:, :1]), value],
        {name: _slot_in_front(rows, 0) for name, rows in terms.items()},
        _slot_in_front(mask, 3),
    )


def _slot_in_front(rows: Tensor, axis: int) -> Tensor:
    one = rows[(*(slice(None),) * axis, slice(1))]
    return ops.concatenate([ops.zeros_like(one), rows], axis=axis)
