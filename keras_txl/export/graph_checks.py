"""Requests are checked inside the graph, where every server runs it.

A server hands a graph whatever a client sends. What does not fit ends in an
error with a sentence, before anything is computed. (TensorFlow only.)

Axes: B rows, T segment.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from keras_txl.aliases import Tensor


def checked(
    tensors: Mapping[str, Tensor], conditions: Sequence[tuple[Any, ...]]
) -> dict[str, Tensor]:
    """The same tensors, read after the conditions have been seen to hold.

    Args:
        tensors: by name.
        conditions: each a bool scalar tensor, a sentence, and tensors that
            are shown behind it.

    Returns:
        The tensors.
    """
    import tensorflow as tf

    asserts = [
        tf.debugging.Assert(condition, [sentence, *shown], summarize=8)
        for condition, sentence, *shown in conditions
    ]
    with tf.control_dependencies(asserts):
        return {name: tf.identity(value) for name, value in tensors.items()}


def same_rows(tensors: Mapping[str, Tensor]) -> list[tuple[Any, ...]]:
    """Every tensor has the same number of rows, and there is one."""
    import tensorflow as tf

    (first, tensor), *others = tensors.items()
    rows = tf.shape(tensor)[0]
    conditions: list[tuple[Any, ...]] = [
        (
            rows > 0,
            f"`{first}` must hold at least one row. Received: rows",
            rows,
        )
    ]
    for name, other in others:
        conditions.append(
            (
                tf.shape(other)[0] == rows,
                f"`{name}` must have as many rows as `{first}`. Received:",
                tf.shape(other),
                tf.shape(tensor),
            )
        )
    return conditions


def of_shape(name: str, tensor: Tensor, shape: Sequence[int | None]) -> Any:
    """A tensor has the shape that its name promises, `None` being free."""
    import tensorflow as tf

    found = tf.shape(unknown_shape(tensor))
    wanted = tf.constant([-1 if size is None else size for size in shape])
    told = ", ".join("rows" if size is None else str(size) for size in shape)
    return (
        tf.reduce_all((found == wanted) | (wanted == -1)),
        f"`{name}` must have shape ({told}), as the model was exported. "
        "Received:",
        found,
    )


def within(
    name: str, tensor: Tensor, least: Any, most: Any, where: Any = True
) -> Any:
    """Values are of `least` to `most`, at least where it counts."""
    import tensorflow as tf

    good = (tensor >= least) & (tensor <= most)
    return (
        tf.reduce_all(good | tf.logical_not(where)),
        f"`{name}` must be from",
        least,
        "to",
        most,
        "Received:",
        tensor,
    )


def unknown_shape(tensor: Tensor) -> Tensor:
    """The tensor, of whose shape nothing is assumed while tracing.

    Servers do not enforce the shapes of a signature, and a check of a shape
    that is taken for granted would be optimised away.
    """
    import tensorflow as tf

    return tf.compat.v1.placeholder_with_default(
        tensor, [None] * len(tensor.shape)
    )
