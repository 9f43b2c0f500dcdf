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
from keras_txl.layers.attention_softmax import masked_softmax
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
    ring = {"states": ops.pad(states, room)}
    for name, projection in _projections(block):
        by_head = ops.transpose(projection(context), (0, 2, 1, 3))
        ring[name] = ops.pad(by_head, [[0, 0], *room])  # (B, N, S, H)
    return ring


def _projections(block: TransformerXLBlock) -> tuple[tuple[str, Any], ...]:
    attention = block.attention
    return (
        ("keys", attention.key_projection),
        ("values", attention.value_projection),
    )


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
    states = ops.cast(hidden, ring["states"].dtype)
    new = {"states": write_slot(ring["states"], slot, states)}
    for name, projection in _projections(block):
        by_head = ops.transpose(projection(context), (0, 2, 1, 3))
        new[name] = write_slot(ring[name], slot, by_head)
    attended = _attend(block.attention, query, new, terms, slot, mask)
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
        "tensorflow": _write_tensorflow_variable,
        "torch": _write_torch_tensor,
    }
    writer = writers.get(keras.backend.backend())
    if writer is not None and writer(rows, slot, row):
        return rows
    start = [*([0] * (len(rows.shape) - 2)), ops.cast(slot, "int32"), 0]
    return ops.slice_update(rows, ops.stack(start), row)


def _write_tensorflow_variable(rows: Tensor, slot: Tensor, row: Tensor) -> bool:
    import tensorflow as tf

    if not isinstance(rows, tf.Variable):
        return False
    rows[..., slot : slot + 1, :].assign(row)
    return True


def _write_torch_tensor(rows: Tensor, slot: Tensor, row: Tensor) -> bool:
    rows.index_copy_(-2, slot.reshape(1).long(), row)
    return True


def terms_by_head(terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tables of `distance_terms` with the heads in front.

    Args:
        terms: some of `relative_key (S, N, H)`, `distance_bias (S, N)` and
            `relative_value (S, H)`.

    Returns:
        `(N, S, H)`, `(N, 1, S)` and `(S, H)`.
    """
    axes = {"relative_key": (1, 0, 2), "distance_bias": (1, 0)}
    terms = {
        name: ops.transpose(rows, axes.get(name)) if name in axes else rows
        for name, rows in terms.items()
    }
    if "distance_bias" in terms:
        terms["distance_bias"] = terms["distance_bias"][:, None]
    return terms


def _attend(
    attention: Any,
    query: Tensor,
    ring: LayerRing,
    terms: dict[str, Tensor],
    slot: Tensor,
    mask: Tensor,
) -> Tensor:
    """The four terms of `relative_attention_scores` for one query a row."""
    biases = attention.attention_biases
    query = ops.transpose(attention.query_projection(query), (0, 2, 1, 3))
    content = position = query  # (B, N, 1, H)
    if biases is not None:
        content = query + biases.content_bias[:, None]
        if biases.position_bias is not None:
            position = query + biases.position_bias[:, None]
    scores = ops.einsum("bnth,bnsh->bnts", content, ring["keys"])  # (a), (c)
    if "relative_key" in terms:
        by_distance = ops.einsum(
            "bnth,nsh->bnts", position, terms["relative_key"]
        )  # (b), (d)
        if "distance_bias" in terms:
            by_distance += terms["distance_bias"]
        scores += _turn(by_distance, slot + 1)
    scores = ops.multiply(scores, query.shape[-1] ** -0.5)
    weights = masked_softmax(scores, mask, attention.logit_cap)  # (B, N, 1, S)
    heads = ops.einsum("bnts,bnsh->btnh", weights, ring["values"])
    if "relative_value" in terms:
        heads += ops.einsum(
            "bnts,sh->btnh",
            _turn(weights, -slot - 1),
            terms["relative_value"],
        )
    return attention.output_projection(heads)  # (B, 1, D)


def _turn(rows: Tensor, places: Tensor) -> Tensor:
    """Shift the last axis to the right; what leaves comes in on the left.

    Column `r` of a table stands for distance `M - r`, which is the distance
    of slot `(r + slot + 1) mod S`.
    """
    slots = rows.shape[-1]
    twice = ops.concatenate([rows, rows], axis=-1)
    start = ops.cast((-places) % slots, "int32")
    return ops.slice(twice, ops.stack([0, 0, 0, start]), ops.shape(rows))
