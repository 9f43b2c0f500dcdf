"""The variables of a memory bank: made, written by rows, and reset.

Row r of a bank belongs to stream r. Axes: B rows, M memory slots, D hidden
width.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.bank_placement import bank_layout
from keras_txl.layers.bank_placement import bank_parts

BANKS = ("train", "eval")
NO_DOCUMENT = -1


def check_bank(bank: str) -> tuple[str, ...]:
    """The banks that `"train"`, `"eval"` or `"all"` names.

    Raises:
        ValueError: for any other name.
    """
    if bank == "all":
        return BANKS
    if bank in BANKS:
        return (bank,)
    raise ValueError(
        f"`bank` must be 'train', 'eval' or 'all'. Received: bank={bank!r}."
    )


def state_variable(
    name: str, shape: tuple[int | None, ...], value: int, dtype: str
) -> keras.Variable:
    """A variable of a bank: each replica its own, replica 0 when read.

    On JAX it is sharded as batches are.
    """
    return keras.Variable(
        keras.initializers.Constant(value),
        shape=shape,
        dtype=dtype,
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
        synchronization="on_read",
        layout=bank_layout(shape),
        name=name,
    )


def assign_rows(variable: keras.Variable, value: Tensor, rows: Any) -> None:
    """Write `value` into the first rows of a bank; the others stay."""
    value = ops.cast(value, variable.dtype)
    if not isinstance(rows, int) or rows < variable.shape[0]:
        rest = ops.copy(variable.value)[rows:]
        value = ops.concatenate([value, rest], axis=0)
    variable.assign(ops.reshape(value, variable.shape))


def reset_rows(
    variable: keras.Variable,
    empty: int,
    rows: Sequence[int] | None,
    batch_size: int,
) -> None:
    """Write `empty` into the chosen rows of a bank. `None`: into all."""
    if rows is None:
        for part in bank_parts(variable).values():
            part.assign(ops.full(variable.shape, empty, dtype=variable.dtype))
        return
    indices = np.asarray(rows).reshape(-1)
    if indices.size and indices.dtype.kind not in "iu":
        raise ValueError(
            "`rows` must be indices of streams. Received: "
            f"rows={rows}. For a mask use `numpy.flatnonzero(mask)`."
        )
    indices = indices.astype("int64")
    if np.any((indices < 0) | (indices >= batch_size)):
        raise ValueError(
            f"`rows` must lie in [0, {batch_size}). Received: rows={rows}."
        )
    chosen = np.zeros((batch_size,) + (1,) * (len(variable.shape) - 1), bool)
    chosen[indices] = True
    size = variable.shape[0]
    for replica, part in bank_parts(variable).items():
        mine = chosen[replica * size : (replica + 1) * size]
        value = ops.convert_to_tensor(part)
        part.assign(ops.where(mine, ops.cast(empty, variable.dtype), value))
