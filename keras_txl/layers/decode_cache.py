"""Keys and values of past tokens, addressed by position, for decoding.

A slot is written, never appended: feeding a token twice at the same position
changes nothing, which `keras_hub.samplers` rely on. Slots `[0, M)` hold the
memory, slot `M + i` token i of the text.

Axes: B rows, K new tokens, S slots, M memory slots, N heads, H head width,
D hidden width.
"""

from typing import Any

from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.transformer_xl_block import TransformerXLBlock

LayerCache = dict[str, Tensor]
"""`keys` and `values`, each (B, S, N, H)."""


def layer_cache(
    block: TransformerXLBlock, states: Tensor, text_length: int | Tensor
) -> LayerCache:
    """Keys and values of a layer's memory, with room for a text behind.

    Args:
        block: the layer.
        states: float tensor of shape `(batch, memory_slots, hidden_dim)`.
        text_length: int or scalar tensor, slots to add, in tokens.

    Returns:
        The cache of the layer, with `memory_slots + text_length` slots.
    """
    states = block.normalize_context(states)
    return {
        name: ops.pad(
            projection(states), [[0, 0], [0, text_length], [0, 0], [0, 0]]
        )
        for name, projection in (
            ("keys", block.attention.key_projection),
            ("values", block.attention.value_projection),
        )
    }


def decode_mask(
    slot: int | Tensor,
    new_tokens: int | Tensor,
    slots: int | Tensor,
    memory_slots: int,
    memory_length: Tensor,
    window: int | Tensor | None,
) -> Tensor:
    """Which slots the new tokens see.

    Args:
        slot: int or scalar tensor, where the first new token stands.
        new_tokens: int or scalar tensor K.
        slots: int or scalar tensor S.
        memory_slots: int M.
        memory_length: int tensor of shape `(batch,)`, valid memory slots.
        window: slots that a token may see, itself included. `None`: all.

    Returns:
        bool tensor of shape `(batch, 1, new_tokens, slots)`.
    """
    places = ops.arange(slots, dtype="int32")  # (S,)
    queries = slot + ops.arange(new_tokens, dtype="int32")  # (K,)
    distance = queries[:, None] - places  # (K, S)
    seen = distance >= 0
    if window is not None:
        seen = ops.logical_and(seen, distance < window)
    valid = places >= (memory_slots - memory_length)[:, None]  # (B, S)
    return ops.logical_and(seen[None, None], valid[:, None, None])


def align_terms(
    terms: dict[str, Tensor], slot: int | Tensor, new_tokens: int | Tensor
) -> dict[str, Tensor]:
    """Rows of the distance tables for tokens that stand at `slot`.

    Args:
        terms: tensors of shape `(slots, ...)`, row `r` for distance
            `slots - 1 - r`.
        slot: int or scalar tensor, where the first new token stands.
        new_tokens: int or scalar tensor K.

    Returns:
        Tensors of the same shapes whose row `c` stands for distance
        `slot + K - 1 - c`, as `relative_shift` expects it. Rows past the
        table (keys in the future) are zeros and masked.
    """
    aligned = {}
    for name, rows in terms.items():
        slots, *rest = ops.shape(rows)
        start = ops.cast(slots - slot - new_tokens, "int32")
        aligned[name] = ops.slice(
            ops.concatenate([rows, ops.zeros_like(rows)]),
            ops.stack([start, *([0] * len(rest))]),
            (slots, *rest),
        )
    return aligned


def decode_block(
    block: TransformerXLBlock,
    hidden: Tensor,
    cache: LayerCache,
    terms: dict[str, Tensor],
    slot: int | Tensor,
    mask: Tensor,
) -> tuple[Tensor, LayerCache]:
    """Run new tokens through one layer and write them into its cache.

    Args:
        block: the layer.
        hidden: float tensor of shape `(batch, new_tokens, hidden_dim)`.
        cache: of this layer.
        terms: from `align_terms`.
        slot: int or scalar tensor, where the first new token stands.
        mask: from `decode_mask`.

    Returns:
        The layer's output `(batch, new_tokens, hidden_dim)` and its cache.
    """
    attention = block.attention
    context = block.normalize_context(hidden)
    query = context if block.normalize_first else hidden
    start: Any = ops.stack([0, ops.cast(slot, "int32"), 0, 0])
    cache = {
        name: ops.slice_update(cache[name], start, projection(context))
        for name, projection in (
            ("keys", attention.key_projection),
            ("values", attention.value_projection),
        )
    }
    attended = attention.attend(
        attention.query_projection(query),
        cache["keys"],
        cache["values"],
        terms,
        mask,
    )
    return block.finish(hidden, attended), cache
