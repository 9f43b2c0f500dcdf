"""Keys and values of the last M tokens in a ring, to decode without end.

A ring has S = M + 1 slots. The token at position p stands in slot p mod S, so
that a new token takes the place of the one that has just gone out of its
sight; nothing else moves, and the cost of a token does not depend on p. What
a distance adds to a score is found by the age of a slot.

Axes: B rows, L layers, M memory slots, S = M + 1 slots, N heads, H head
width, D hidden width.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.layers.key_value_attention import attend_by_head
from keras_txl.layers.key_value_attention import key_and_value
from keras_txl.layers.segment_memory import clear_empty_slots
from keras_txl.layers.transformer_xl_block import TransformerXLBlock

LayerRing = dict[str, Tensor]
"""`keys` and `values` (B, N, S, H), and `states` (B, S, D) they came from.

Tensors, on TensorFlow also variables: see `write_slot`."""

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
    room = [[0, 0], [0, 1], [0, 0]]
    context = block.normalize_context(ops.cast(states, block.compute_dtype))
    keys, values = key_and_value(block, context)
    return {
        "states": ops.pad(states, room),
        "keys": ops.pad(keys, [[0, 0], *room]),  # (B, N, S, H)
        "values": ops.pad(values, [[0, 0], *room]),
    }


def ring_distances(slot: Tensor, slots: int) -> Tensor:
    """Distance of the token in each slot to the one that stands at `slot`.

    Args:
        slot: int32 scalar tensor.
        slots: int S.

    Returns:
        int32 tensor of shape `(slots,)`, each of 0 to M once.
    """
    return (slot - ops.arange(slots, dtype="int32")) % slots


def decode_token(
    block: TransformerXLBlock,
    hidden: Tensor,
    ring: LayerRing,
    terms: dict[str, Tensor],
    slot: Tensor,
    mask: Tensor,
) -> tuple[Tensor, LayerRing]:
    """Run one token of each row through a layer and write it into the ring.

    Args:
        block: the layer.
        hidden: float tensor of shape `(batch, 1, hidden_dim)`.
        ring: of this layer.
        terms: from `terms_by_head`.
        slot: int32 scalar tensor, where the token stands.
        mask: bool tensor of shape `(batch, 1, 1, slots)`, which slots the
            token sees.

    Returns:
        The layer's output `(batch, 1, hidden_dim)` and its ring.
    """
    context = block.normalize_context(hidden)
    query = context if block.normalize_first else hidden
    keys, values = key_and_value(block, context)
    rows = {
        "states": ops.cast(hidden, ring["states"].dtype),
        "keys": keys,
        "values": values,
    }
    new = {
        name: write_slot(ring[name], slot, row) for name, row in rows.items()
    }
    # Column `r` of a table stands for distance `M - r`, which is the distance
    # of slot `(r + slot + 1) mod S`.
    attended = attend_by_head(
        block.attention,
        query,
        [(new["keys"], new["values"])],
        terms,
        mask,
        to_keys=lambda rows: _turn(rows, slot + 1),
        to_distances=lambda rows: _turn(rows, -slot - 1),
    )
    return block.finish(hidden, attended), new


def writable(layers: tuple[LayerRing, ...]) -> tuple[LayerRing, ...]:
    """The same rings in a form that `write_slot` fills in place."""
    if keras.backend.backend() != "tensorflow":
        return layers
    import tensorflow as tf

    variables: tuple[LayerRing, ...] = keras.tree.map_structure(
        lambda rows: tf.Variable(rows, trainable=False), layers
    )
    return variables


def write_slot(rows: Tensor, slot: Tensor, row: Tensor) -> Tensor:
    """Put a row at `slot` of the axis before the last.

    Args:
        rows: tensor of shape `(..., slots, width)`. A tensor of PyTorch and a
            variable of TensorFlow are written in place: a copy of the ring
            for each token would cost more than reading it. Elsewhere the
            compiler sees to that.
        slot: int32 scalar tensor.
        row: tensor of shape `(..., 1, width)`.

    Returns:
        The rows.
    """
    writers = {
        "tensorflow": _write_with_tensorflow,
        "torch": _write_torch_tensor,
    }
    writer = writers.get(keras.backend.backend())
    if writer is not None:
        return writer(rows, slot, row)
    start = [*([0] * (len(rows.shape) - 2)), ops.cast(slot, "int32"), 0]
    return ops.slice_update(rows, ops.stack(start), row)


def _write_with_tensorflow(rows: Tensor, slot: Tensor, row: Tensor) -> Tensor:
    import tensorflow as tf

    if isinstance(rows, tf.Variable):
        rows[..., slot : slot + 1, :].assign(row)
        return rows
    # Keras would take an operation of XLA, which few servers have.
    *_, slots, width = tf.unstack(tf.shape(rows))
    flat = tf.reshape(rows, [-1, width])
    places = tf.range(slot, tf.shape(flat)[0], slots)
    flat = tf.tensor_scatter_nd_update(
        flat, places[:, None], tf.reshape(row, [-1, width])
    )
    return tf.ensure_shape(tf.reshape(flat, tf.shape(rows)), rows.shape)


def _write_torch_tensor(rows: Tensor, slot: Tensor, row: Tensor) -> Tensor:
    return rows.index_copy_(-2, slot.reshape(1).long(), row)


def _turn(rows: Tensor, places: Tensor) -> Tensor:
    """Shift the last axis to the right; what leaves comes in on the left."""
    slots = rows.shape[-1]
    twice = ops.concatenate([rows, rows], axis=-1)
    start = ops.cast((-places) % slots, "int32")
    return ops.slice(twice, ops.stack([0, 0, 0, start]), ops.shape(rows))
