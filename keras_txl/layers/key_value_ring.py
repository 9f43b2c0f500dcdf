"""Keys and values of the last M tokens in a ring, to decode without end.

A ring has S = M + 1 slots. The token at position p stands in slot p mod S, so
that a new token takes the place of the one that has just gone out of its
sight; nothing else moves, and the cost of a token does not depend on p. What
a distance adds to a score is found by the age of a slot.

Axes: B rows, L layers, M memory slots, S = M + 1 slots, N heads, H head
width, D hidden width.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.layers.segment_memory import clear_empty_slots
from keras_txl.layers.transformer_xl_block import TransformerXLBlock

LayerRing = dict[str, Tensor]
"""`keys` (B, N, H, S) and `values` (B, N, S, H), laid out as their products
read them, and `states` (B, S, D) they came from."""

SlotWriter = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""(rows, slot, row, axis) -> rows, see `slot_writer`."""

SLOT_AXIS = {"states": -2, "keys": -1, "values": -2}

KeyValueMemory = dict[str, Any]
"""A tuple `layers` of `LayerRing`, `length` (B,), `document` (B,) and `slot`,
a scalar: the slot of the next token."""


def to_key_value(
    blocks: Sequence[TransformerXLBlock], memory: Memory
) -> KeyValueMemory:
    """Derive the ring of keys and values from a memory.

    Args:
        blocks: the layers of the model.
        memory: memory value.

    Returns:
        The ring. It holds for the weights of the moment.
    """
    states = memory["states"]  # (B, L, M, D)
    return {
        "layers": tuple(
            _layer_ring(
                block, clear_empty_slots(states[:, index], memory["length"])
            )
            for index, block in enumerate(blocks)
        ),
        "length": memory["length"],
        "document": memory["document"],
        "slot": ops.convert_to_tensor(ops.shape(states)[2], dtype="int32"),
    }


def to_memory(ring: KeyValueMemory) -> Memory:
    """The memory that a ring stands for, oldest token first.

    Args:
        ring: from `to_key_value`, after any number of steps.

    Returns:
        The memory value.
    """
    length, slot = ring["length"], ring["slot"]
    states = []
    for layer in ring["layers"]:
        turned = ops.roll(layer["states"], -slot, axis=1)  # (B, S, D)
        # The first is the slot of the next token: out of sight for it.
        states.append(clear_empty_slots(turned[:, 1:], length))
    return {
        "states": ops.stack(states, axis=1),  # (B, L, M, D)
        "length": length,
        "document": ring["document"],
    }


def _layer_ring(block: TransformerXLBlock, states: Tensor) -> LayerRing:
    """The ring of a layer from its memory `states` (B, M, D)."""
    context = block.normalize_context(ops.cast(states, block.compute_dtype))
    rows = {
        "states": states,  # (B, M, D)
        "keys": ops.transpose(
            block.attention.key_projection(context), (0, 2, 3, 1)
        ),  # (B, N, H, M)
        "values": ops.transpose(
            block.attention.value_projection(context), (0, 2, 1, 3)
        ),  # (B, N, M, H)
    }
    ring = {}
    for name, tensor in rows.items():
        room = [[0, 0]] * len(tensor.shape)
        room[SLOT_AXIS[name]] = [0, 1]
        ring[name] = ops.pad(tensor, room)
    return ring


def ring_distances(slot: Tensor, slots: int) -> Tensor:
    """Distance of the token in each slot to the one that stands at `slot`.

    Args:
        slot: int32 scalar tensor.
        slots: int S.

    Returns:
        int32 tensor of shape `(slots,)`, each of 0 to M once.
    """
    return (slot - ops.arange(slots, dtype="int32")) % slots


def hold_layers(layers: tuple[LayerRing, ...]) -> tuple[LayerRing, ...]:
    """The same rings in a form that a compiled function may overwrite.

    On TensorFlow these are variables, from which `take_layers` takes the
    tensors and into which `return_layers` puts them; elsewhere the tensors.
    """
    if keras.backend.backend() != "tensorflow":
        return layers
    import tensorflow as tf

    held: tuple[LayerRing, ...] = keras.tree.map_structure(
        lambda rows: tf.Variable(rows, trainable=False), layers
    )
    return held


def take_layers(layers: tuple[LayerRing, ...]) -> tuple[LayerRing, ...]:
    """The rings that are held, for nobody else to read until they return."""
    if keras.backend.backend() != "tensorflow":
        return layers
    import tensorflow as tf

    def take(held: Any) -> Tensor:
        rows = held.read_value()
        nothing = tf.raw_ops.Empty(shape=rows.shape, dtype=rows.dtype)
        with tf.control_dependencies([rows]):
            left = held.assign(nothing, read_value=False)
        with tf.control_dependencies([left]):
            return tf.identity(rows)

    taken: tuple[LayerRing, ...] = keras.tree.map_structure(take, layers)
    return taken


def return_layers(
    layers: tuple[LayerRing, ...], rows: tuple[LayerRing, ...]
) -> tuple[LayerRing, ...]:
    """Hold the new rings; what is returned is empty if `layers` hold them."""
    if keras.backend.backend() != "tensorflow":
        return rows
    keras.tree.map_structure(lambda held, new: held.assign(new), layers, rows)
    return ()


def slot_writer(on_tensorflow: str = "scatter") -> SlotWriter:
    """How a row is put at a slot of a ring.

    A copy of the ring for each token would cost more than reading it. PyTorch
    writes in place, and XLA sees to that itself.

    Args:
        on_tensorflow: `"in_place"`, with an operation that XLA and some
            runtimes do not have; `"slice"`, for XLA; `"scatter"`, a copy
            that every runtime can make.

    Returns:
        `write(rows, slot, row, axis)`, which returns the rows and may have
        overwritten those that it was given. `slot` is an int32 scalar tensor,
        `row` has the shape of `rows` with one slot at `axis`, -1 or -2.
    """
    tensorflow_writers = {
        "in_place": _write_in_place,
        "slice": _update_slice,
        "scatter": _scatter_tensorflow,
    }
    writers = {
        "tensorflow": tensorflow_writers[on_tensorflow],
        "torch": _write_torch_tensor,
    }
    return writers.get(keras.backend.backend(), _update_slice)


def _update_slice(rows: Tensor, slot: Tensor, row: Tensor, axis: int) -> Tensor:
    start: list[Any] = [0] * len(rows.shape)
    start[axis] = ops.cast(slot, "int32")
    return ops.slice_update(rows, ops.stack(start), row)


def _write_in_place(
    rows: Tensor, slot: Tensor, row: Tensor, axis: int
) -> Tensor:
    # TensorFlow takes over the memory of rows that nobody else holds. It would
    # copy for `slice_update`, and when a variable written in parts is read.
    import tensorflow as tf

    begin: list[Any] = [0] * len(rows.shape)
    end = list(begin)
    begin[axis], end[axis] = slot, slot + 1
    whole = 2 ** len(begin) - 1 - 2 ** (len(begin) + axis)  # all other axes
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=rows,
        begin=begin,
        end=end,
        strides=[1] * len(begin),
        value=row,
        begin_mask=whole,
        end_mask=whole,
    )


def _scatter_tensorflow(
    rows: Tensor, slot: Tensor, row: Tensor, axis: int
) -> Tensor:
    # Keras would take an operation of XLA, which few servers have.
    import tensorflow as tf

    shape = tf.shape(rows)
    width = shape[-1] if axis == -2 else 1
    flat = tf.reshape(rows, [-1, width])
    places = tf.range(slot, tf.shape(flat)[0], shape[axis])
    flat = tf.tensor_scatter_nd_update(
        flat, places[:, None], tf.reshape(row, [-1, width])
    )
    return tf.ensure_shape(tf.reshape(flat, shape), rows.shape)


def _write_torch_tensor(
    rows: Tensor, slot: Tensor, row: Tensor, axis: int
) -> Tensor:
    return rows.index_copy_(axis, slot.reshape(1).long(), row)
