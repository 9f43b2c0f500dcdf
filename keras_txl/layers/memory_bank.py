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
    """A variable of a bank: each replica its own, replica 0 when read."""
    return keras.Variable(
        keras.initializers.Constant(value),
        shape=shape,
        dtype=dtype,
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
        synchronization="on_read",
        name=name,
    )


def assign_rows(variable: keras.Variable, value: Tensor, rows: Any) -> None:
    """Write `value` into the first rows of a bank; the others stay."""
    value = ops.cast(value, variable.dtype)
    if not isinstance(rows, int) or rows < variable.shape[0]:
        rest = ops.copy(variable.value)[rows:]
        value = ops.reshape(
            ops.concatenate([value, rest], axis=0), variable.shape
        )
    variable.assign(value)


def reset_rows(
    variable: keras.Variable,
    empty: int,
    rows: Sequence[int] | None,
    batch_size: int,
) -> Tensor:
    if rows is None:
        return ops.full(variable.shape, empty, dtype=variable.dtype)
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
    return ops.where(chosen, ops.cast(empty, variable.dtype), variable.value)


def check_rows_in_tensorflow_graph(
    hidden: Tensor, batch_size: int, text: str
) -> Tensor:
    """Rows are unknown while TensorFlow traces: check when the graph runs."""
    import tensorflow as tf

    rows = tf.shape(hidden)[0]
    check = tf.debugging.Assert(
        rows <= batch_size, [text.format(rows="(next number)"), rows]
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(hidden)
