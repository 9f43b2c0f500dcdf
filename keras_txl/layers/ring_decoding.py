"""One token of each row through a layer, on its ring of keys and values.

Axes: B rows, M memory slots, S = M + 1 slots, N heads, H head width, D hidden
width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.key_value_attention import attend_heads
from keras_txl.layers.key_value_ring import SLOT_AXIS
from keras_txl.layers.key_value_ring import LayerRing
from keras_txl.layers.key_value_ring import SlotWriter
from keras_txl.layers.layer_types import in_type_of
from keras_txl.layers.transformer_xl_block import TransformerXLBlock


def decode_token(
    block: TransformerXLBlock,
    hidden: Tensor,
    ring: LayerRing,
    terms: dict[str, Tensor],
    slot: Tensor,
    mask: Tensor,
    write: SlotWriter,
) -> tuple[Tensor, LayerRing]:
    """Run one token of each row through a layer and write it into the ring.

    Args:
        block: the layer.
        hidden: float tensor of shape `(batch, 1, hidden_dim)`.
        ring: of this layer; `states` may be missing.
        terms: from `terms_by_head` and `token_products`.
        slot: int32 scalar tensor, where the token stands.
        mask: bool tensor of shape `(batch, 1, 1, slots)`, which slots the
            token sees.
        write: from `slot_writer`.

    Returns:
        The layer's output `(batch, 1, hidden_dim)` and its ring.
    """
    heads = _project(block, hidden, terms)  # (B, 3, N, H)
    rows = {
        "states": hidden,  # (B, 1, D)
        "keys": heads[:, 1, :, :, None],  # (B, N, H, 1)
        "values": heads[:, 2, :, None],  # (B, N, 1, H)
    }
    attend = _attend_after_write
    if keras.backend.backend() == "jax":
        attend = _attend_before_write
    attended, new = attend(
        block.attention,
        heads[:, 0, :, None],
        ring,
        rows,
        terms,
        slot,
        mask,
        write,
    )  # (B, 1, N, H)
    if "output" in terms:
        attended = ops.reshape(attended, (-1, 1, terms["output"].shape[0]))
        attended = ops.matmul(attended, terms["output"])
    else:
        attended = block.attention.output_projection(attended)
    return block.finish(hidden, attended), new


def _attend_after_write(
    attention: Any,
    query: Tensor,
    ring: LayerRing,
    rows: LayerRing,
    terms: dict[str, Tensor],
    slot: Tensor,
    mask: Tensor,
    write: SlotWriter,
) -> tuple[Tensor, LayerRing]:
    """Attention (B, 1, N, H) over the ring with the token in it, and that."""
    new = _write_rows(ring, rows, slot, write)
    # Column `r` of a table stands for distance `M - r`, which is the distance
    # of slot `(r + slot + 1) mod S`.
    attended = attend_heads(
        attention,
        query,  # (B, N, 1, H)
        [(new["keys"], new["values"])],
        terms,
        mask,
        to_keys=lambda columns: _turn(columns, slot + 1),
        to_distances=lambda weights: _turn(weights, -slot - 1),
        keys_axes="bnhs",
    )
    return attended, new


def _attend_before_write(
    attention: Any,
    query: Tensor,
    ring: LayerRing,
    rows: LayerRing,
    terms: dict[str, Tensor],
    slot: Tensor,
    mask: Tensor,
    write: SlotWriter,
) -> tuple[Tensor, LayerRing]:
    """The same on JAX, where the order of reading and writing costs."""
    # XLA would copy a ring, several times, that is read after it was written.
    # So the token stands behind the ring, in which its slot is masked.
    old = ops.arange(mask.shape[-1], dtype="int32") != slot
    mask = ops.concatenate(
        [ops.logical_and(mask, old), ops.ones_like(mask[..., :1])], axis=-1
    )

    def to_distances(weights: Tensor) -> Tensor:
        turned = _turn(weights[..., :-1], -slot - 1)
        return ops.concatenate([turned[..., :-1], weights[..., -1:]], axis=-1)

    attended = attend_heads(
        attention,
        query,
        [(ring["keys"], ring["values"]), (rows["keys"], rows["values"])],
        terms,
        mask,
        to_keys=lambda columns: ops.concatenate(
            [_turn(columns, slot + 1), columns[..., -1:]], axis=-1
        ),
        to_distances=to_distances,
        keys_axes="bnhs",
    )
    # What is written has to wait for what is read, or XLA copies after all.
    wait = attended[:, :1, :1, :1] * 0  # (B, 1, 1, 1)
    rows = {
        **rows,
        "keys": rows["keys"] + wait,
        "values": rows["values"] + wait,
    }
    return attended, _write_rows(ring, rows, slot, write)


def _write_rows(
    ring: LayerRing, rows: LayerRing, slot: Tensor, write: SlotWriter
) -> LayerRing:
    return {
        name: write(
            tensor, slot, ops.cast(rows[name], tensor.dtype), SLOT_AXIS[name]
        )
        for name, tensor in ring.items()
    }


def _project(
    block: TransformerXLBlock, hidden: Tensor, terms: dict[str, Tensor]
) -> Tensor:
    """Query, key and value of a token: (B, 1, D) to (B, 3, N, H)."""
    attention = block.attention
    context = block.normalize_context(hidden)
    if "projection" in terms:
        rows = in_type_of(attention, context[:, 0])
        heads = ops.matmul(rows, terms["projection"])  # (B, 3 N H)
        shape = (-1, 3, attention.num_heads, attention.head_dim)
        return ops.reshape(heads, shape)
    query = context if block.normalize_first else hidden
    return ops.concatenate(
        [
            attention.query_projection(query),
            attention.key_projection(context),
            attention.value_projection(context),
        ],
        axis=1,
    )


def token_products(block: TransformerXLBlock) -> dict[str, Tensor]:
    """Matrices of a layer in the form in which one token needs them.

    Args:
        block: the layer.

    Returns:
        Where they are plain products, `projection (D, 3 N H)` of query, key
        and value in one, and `output (N H, D)`.
    """
    attention = block.attention
    projections = [
        attention.query_projection,
        attention.key_projection,
        attention.value_projection,
        attention.output_projection,
    ]
    if any(projection.quantization_mode for projection in projections):
        return {}
    *kernels, output = (
        in_type_of(attention, projection.kernel) for projection in projections
    )
    hidden_dim = output.shape[-1]
    products = {"output": ops.reshape(output, (-1, hidden_dim))}
    if not block.memory_layer_norm:  # or the three have other inputs
        products["projection"] = ops.concatenate(
            [ops.reshape(kernel, (hidden_dim, -1)) for kernel in kernels],
            axis=1,
        )
    return products


def _turn(rows: Tensor, places: Tensor) -> Tensor:
    """Shift the last axis to the right; what leaves comes in on the left."""
    slots = ops.shape(rows)[-1]
    if keras.backend.backend() == "torch":  # a slice would ask for its start
        order = (ops.arange(slots, dtype="int32") - places) % slots
        return ops.take(rows, order, axis=-1)
    twice = ops.concatenate([rows, rows], axis=-1)
    start = ops.cast((-places) % slots, "int32")
    return ops.slice(twice, ops.stack([0, 0, 0, start]), ops.shape(rows))
