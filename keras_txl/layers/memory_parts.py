"""Keys in two parts, memory and segment, that keep sums of their own.

Axes: M memory slots, T segment, S = M + T keys.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import keras
from keras import ops

from keras_txl.aliases import Tensor

_IN_ONE = ContextVar("keys_in_one", default=False)


@contextmanager
def keys_in_one() -> Iterator[None]:
    """What is computed here has memory and segment in one sum.

    For exports whose lengths are free: OpenVINO does not read what the lengths
    of parts are made of. And for evaluations, whose number of slots is fixed.
    """
    token = _IN_ONE.set(True)
    try:
        yield
    finally:
        _IN_ONE.reset(token)


def are_keys_in_one() -> bool:
    """Whether this is called inside `keys_in_one`."""
    return _IN_ONE.get()


def split_keys(rows: Tensor, slots: int | Tensor, axis: int) -> list[Tensor]:
    """Memory and segment; one of them alone where nothing is to split.

    Args:
        rows: tensor with S keys along `axis`.
        slots: int or scalar tensor M. A tensor always gives two parts, outside
            of `keys_in_one`.
        axis: int, counted from the front.

    Returns:
        List of one or two tensors with M and T keys.
    """
    known = isinstance(slots, int)
    if are_keys_in_one() or (known and slots == 0):
        return [rows]
    known = known and isinstance(rows.shape[axis], int)
    if known and keras.backend.backend() != "torch":
        return list(ops.split(rows, [slots], axis=axis))
    # PyTorch would ask a tensor for where to split; its slices are views.
    front = (slice(None),) * axis
    return [rows[(*front, slice(slots))], rows[(*front, slice(slots, None))]]


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
