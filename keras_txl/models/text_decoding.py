"""A model as a step over a text that samplers address by position.

Axes: B rows, P tokens of the text, M memory slots, S = M + 1 slots, D hidden
width, V vocabulary.
"""

from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.generation.decoding import CachedStep
from keras_txl.layers.segment_memory import empty_memory
from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.token_decoding import TokenDecoder
from keras_txl.models.torch_graph import as_torch_graph


def read_text(
    lm: Any,
    token_ids: Tensor,
    prompt_length: Tensor,
    memory: Memory | None = None,
    keep_hidden: bool = False,
) -> tuple[CachedStep, Any, Tensor | None]:
    """Read the part of the prompts that all rows have; make the step behind.

    Args:
        lm: a `TransformerXLCausalLM`.
        token_ids: int tensor of shape `(batch, length)`, room for the text.
        prompt_length: int scalar tensor, at least 1. Tokens that each row
            has; the newest of them is left to the first step.
        memory: memory value before the text. `None`: no past.
        keep_hidden: bool. Whether the hidden states are asked for.

    Returns:
        `step(token_ids, cache, position) -> (logits, hidden, cache)`, with
        ids of shape `(batch, 1)`; its cache, each leaf with the rows first;
        and the hidden states `(batch, length, hidden_dim)` of the prompt, or
        `None`.
    """
    backbone: TransformerXLBackbone = lm.backbone
    if memory is not None and memory["states"].shape[2] == 0:
        memory = None  # of a model that keeps nothing
    if backbone.position.startswith("absolute"):
        return _recompute_text(lm, token_ids, memory, keep_hidden)
    at_most = None
    if memory is None:
        memory = _room_for_text(backbone, token_ids)
        if backbone.memory_layers[0].slots(training=False) == 0:
            at_most = backbone.attention_mask.window(0, training=False)
    slots = ops.shape(memory["states"])[2]
    write = "slice" if lm.jit_compile else "in_place"
    decoder = TokenDecoder(lm, slots, at_most, on_tensorflow=write)
    newest = prompt_length - 1
    memory, hidden = decoder.read_prompt(token_ids, newest, memory, keep_hidden)
    ring = decoder.to_state(memory)
    step = _ring_step(lm, decoder, ring, newest)
    cache = {
        "layers": tuple(
            {name: layer[name] for name in ("keys", "values")}
            for layer in ring["layers"]
        ),
        "length": ring["length"][:, None],  # every leaf has the rows first
    }
    if hidden is not None:
        place = ops.cast(ops.stack([0, newest]), "int32")
        ids = ops.slice(token_ids, place, (ops.shape(token_ids)[0], 1))
        _, row, cache = step(ids, cache, newest)
        hidden = ops.slice_update(hidden, ops.stack([0, newest, 0]), row)
        hidden = hidden[:, : ops.shape(token_ids)[1]]
    return step, cache, hidden


def _ring_step(
    lm: Any, decoder: TokenDecoder, ring: Any, newest: Any
) -> CachedStep:
    """The step over a ring that was made at the position `newest`."""
    terms = decoder.terms_and_products()

    def feed(new_ids: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Any]:
        hidden, layers = decoder.feed(new_ids, *rest)
        logits = lm.head.logits(hidden, ops.zeros_like(new_ids))
        return logits, hidden, layers

    feed = as_torch_graph(lm, feed)

    def step(
        new_ids: Tensor, cache: Any, position: Any
    ) -> tuple[Tensor, Tensor, Any]:
        fed = position - newest  # since the ring was made
        logits, hidden, layers = feed(
            new_ids,
            cache["layers"],
            ring["slot"] + fed,
            cache["length"][:, 0] + fed,
            terms,
        )
        return logits, hidden, {**cache, "layers": layers}

    return step


def _room_for_text(
    backbone: TransformerXLBackbone, token_ids: Tensor
) -> Memory:
    """The empty memory from which a text without a past is generated.

    Slots that a text cannot fill cost time, so there are none unless the
    model attends to them. A model without memory sees the whole text.
    """
    batch, length = ops.shape(token_ids)
    slots = _slots_for_text(backbone, length) or length
    return _empty_memory(backbone, batch, slots)


def _slots_for_text(backbone: TransformerXLBackbone, length: Any) -> int:
    slots = backbone.memory_layers[0].slots(training=False)
    if isinstance(length, int) and not backbone.attend_empty_memory:
        slots = min(slots, length)
    return slots


def _empty_memory(
    backbone: TransformerXLBackbone, batch_size: Any, slots: Any
) -> Memory:
    return empty_memory(
        batch_size,
        backbone.num_layers,
        slots,
        backbone.hidden_dim,
        backbone.memory_dtype,
    )


def _recompute_text(
    lm: Any, token_ids: Tensor, memory: Memory | None, keep_hidden: bool
) -> tuple[CachedStep, Any, Tensor | None]:
    """The same without keys and values, for absolute positions.

    A new token moves the position of all others, so nothing can be kept:
    each step runs the text so far as one segment behind the memory.
    """
    backbone: TransformerXLBackbone = lm.backbone
    batch, length = ops.shape(token_ids)
    if memory is None:
        # Empty, and yet windows of the memory's length are counted by it.
        slots = _slots_for_text(backbone, length)
        memory = _empty_memory(backbone, batch, slots)

    def step(
        new_ids: Tensor, cache: Any, position: Any
    ) -> tuple[Tensor, Tensor, Any]:
        position = ops.cast(position, "int32")
        start = ops.stack([0, position])
        cache = {
            **cache,
            "text": ops.slice_update(cache["text"], start, new_ids),
        }
        written = ops.arange(length, dtype="int32") <= position
        hidden = _text_states(backbone, cache, written)
        newest = ops.slice(
            hidden,
            ops.stack([0, position, 0]),
            (ops.shape(new_ids)[0], 1, hidden.shape[-1]),
        )
        logits = lm.head.logits(newest, ops.zeros_like(new_ids))
        return logits, newest, cache

    cache = {
        "text": ops.cast(token_ids, "int32"),
        "states": memory["states"],
        "length": memory["length"][:, None],  # every leaf has the rows first
        "document": ops.maximum(memory["document"], 0)[:, None],
    }
    hidden = None
    if keep_hidden:
        hidden = _text_states(backbone, cache, ops.ones((length,), "bool"))
    return step, cache, hidden


def _text_states(
    backbone: TransformerXLBackbone, cache: Any, written: Tensor
) -> Tensor:
    """Hidden states (B, P, D) of a text whose `written` tokens (P,) count."""
    document_ids = ops.where(written, cache["document"][:, :1], -1)
    shape = ops.shape(cache["text"])
    hidden, _ = backbone.call_with_memory(
        {
            "token_ids": cache["text"],
            "document_ids": ops.broadcast_to(document_ids, shape),
        },
        {
            "states": cache["states"],
            "length": cache["length"][:, 0],
            "document": cache["document"][:, 0],
        },
    )
    return hidden
