"""A backbone as a step over cached keys and values, for sampling loops.

Axes: B rows, K new tokens, S slots, M memory slots, N heads, H head width.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.layers.decode_cache import align_terms
from keras_txl.layers.decode_cache import decode_block
from keras_txl.layers.decode_cache import decode_mask
from keras_txl.layers.decode_cache import layer_cache
from keras_txl.layers.segment_memory import empty_memory
from keras_txl.models.backbone import TransformerXLBackbone

BackboneStep = Callable[[Tensor, Any, Any], tuple[Tensor, Any]]


def text_step(
    backbone: TransformerXLBackbone, token_ids: Tensor, memory: Any = None
) -> tuple[BackboneStep, Any]:
    """The step that suits the model's positions.

    Args:
        backbone: the model.
        token_ids: int tensor of shape `(batch, length)`, room for the text.
        memory: memory value before the text. `None`: no past.

    Returns:
        Step and cache, see `cached_step`.
    """
    batch, length = ops.shape(token_ids)
    if memory is None:
        memory = text_memory(backbone, batch)
    if backbone.position.startswith("absolute"):
        return recomputing_step(backbone, memory, token_ids)
    return cached_step(backbone, memory, length)


def text_memory(
    backbone: TransformerXLBackbone, batch_size: int | Tensor
) -> Memory:
    """The memory from which a text without a past is generated.

    Slots that hold nothing cost time, so there are none unless the model
    attends to them.

    Args:
        backbone: the model.
        batch_size: int or scalar tensor B.

    Returns:
        An empty memory value.
    """
    slots = backbone.memory_layers[0].slots(training=False)
    return empty_memory(
        batch_size,
        backbone.num_layers,
        slots if backbone.attend_empty_memory else 0,
        backbone.hidden_dim,
        backbone.memory_dtype,
    )


def cached_step(
    backbone: TransformerXLBackbone, memory: Memory, text_length: int | Tensor
) -> tuple[BackboneStep, Any]:
    """A step over a cache of keys and values.

    Every token sees what it would see if tokens were fed one at a time with
    `call_with_memory`: itself and the M tokens before it. A model without
    memory sees the whole text.

    Args:
        backbone: the model.
        memory: memory value before the text.
        text_length: int or scalar tensor. Tokens of prompt and continuation
            together.

    Returns:
        `step(token_ids, cache, position) -> (hidden, cache)`, with `token_ids
        (batch, new_tokens)`, and the cache before the text.
    """
    blocks = backbone.transformer_layers
    slots = ops.shape(memory["states"])[2]
    window = _window(backbone, slots)
    length = memory["length"]
    if backbone.attend_empty_memory:
        length = ops.zeros_like(length) + slots
    states = ops.cast(memory["states"], backbone.compute_dtype)
    cache = {
        "layers": tuple(
            layer_cache(block, states[:, index], text_length)
            for index, block in enumerate(blocks)
        ),
        "memory_length": length[:, None],  # every leaf has the rows first
    }
    total = slots + text_length
    room = cache["layers"][0]["keys"]  # only its length is read
    encoding = None
    if backbone.distance_encoding is not None:
        encoding = backbone.distance_encoding(room)
    terms = [
        block.attention.distance_terms(room, encoding) for block in blocks
    ]  # each (S, ...)

    def step(
        token_ids: Tensor, cache: Any, position: int | Tensor
    ) -> tuple[Tensor, Any]:
        new_tokens = ops.shape(token_ids)[1]
        slot = slots + position
        mask = decode_mask(
            slot,
            new_tokens,
            total,
            slots,
            cache["memory_length"][:, 0],
            window,
        )
        hidden = backbone.embed(token_ids)
        layers = []
        for block, layer, distances in zip(
            blocks, cache["layers"], terms, strict=True
        ):
            aligned = align_terms(distances, slot, new_tokens)
            hidden, layer = decode_block(
                block, hidden, layer, aligned, slot, mask
            )
            layers.append(layer)
        return hidden, {**cache, "layers": tuple(layers)}

    return step, cache


def recomputing_step(
    backbone: TransformerXLBackbone, memory: Memory, token_ids: Tensor
) -> tuple[BackboneStep, Any]:
    """The same step without a cache, for absolute positions.

    A new token moves the position of all others, so keys and values cannot
    be kept: each step runs the text so far as one segment behind the memory.

    Args:
        backbone: the model.
        memory: memory value before the text.
        token_ids: int tensor of shape `(batch, length)`, room for the text.

    Returns:
        Step and cache as of `cached_step`.
    """
    length = ops.shape(token_ids)[1]

    def step(
        new_ids: Tensor, cache: Any, position: int | Tensor
    ) -> tuple[Tensor, Any]:
        batch, new_tokens = ops.shape(new_ids)
        start = ops.stack([0, ops.cast(position, "int32")])
        text = ops.slice_update(cache["text"], start, new_ids)
        written = ops.arange(length, dtype="int32") < position + new_tokens
        document_ids = ops.where(written, cache["document"][:, :1], -1)
        hidden, _ = backbone.call_with_memory(
            {
                "token_ids": text,
                "document_ids": ops.broadcast_to(document_ids, (batch, length)),
            },
            {
                "states": cache["states"],
                "length": cache["length"][:, 0],
                "document": cache["document"][:, 0],
            },
        )
        newest = ops.slice(
            hidden,
            ops.stack([0, ops.cast(position, "int32"), 0]),
            (batch, new_tokens, hidden.shape[-1]),
        )
        return newest, {**cache, "text": text}

    document = ops.maximum(memory["document"], 0)
    return step, {
        "text": ops.zeros_like(token_ids),
        "states": memory["states"],
        "length": memory["length"][:, None],  # every leaf has the rows first
        "document": document[:, None],
    }


def _window(
    backbone: TransformerXLBackbone, memory_slots: int | Tensor
) -> int | Tensor | None:
    """Keys a token sees: the M before it and itself, or fewer."""
    if isinstance(memory_slots, int) and memory_slots == 0:
        memory_slots = backbone.memory_layers[0].slots(training=False)
    window: Any = backbone.attention_mask.window(memory_slots, training=False)
    if isinstance(memory_slots, int) and memory_slots == 0:
        return window  # a model without memory
    if window is None:
        return memory_slots + 1
    return ops.minimum(window, memory_slots + 1)
