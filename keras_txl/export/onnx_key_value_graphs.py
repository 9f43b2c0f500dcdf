"""A graph for ONNX with memory as keys and values of the past.

Axes: B rows, T segment, P past tokens, M memory slots, N heads, H head width,
R rows of a distance table, V vocabulary.
"""

import functools
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.export.onnx_signature import BATCH
from keras_txl.export.onnx_signature import PAST
from keras_txl.export.onnx_signature import SEGMENT
from keras_txl.export.onnx_signature import TOTAL
from keras_txl.export.onnx_signature import Graph
from keras_txl.export.onnx_signature import Value
from keras_txl.export.onnx_signature import logits_shape
from keras_txl.layers.attention_mask import attention_mask as causal_mask
from keras_txl.layers.key_value_attention import attend_by_head
from keras_txl.layers.key_value_attention import key_and_value
from keras_txl.layers.relative_shift import relative_shift
from keras_txl.layers.relative_shift import weights_by_distance
from keras_txl.models.token_decoding import TokenDecoder


def key_value_graph(lm: Any, memory_length: int) -> Graph:
    """A segment with the keys and values of all past tokens in and out.

    A token sees itself and the M tokens before it, however the text is cut
    and however much of the past is given. Zeros in `attention_mask` stand on
    the left of a row that is shorter than the others.

    Args:
        lm: a `TransformerXLCausalLM` with relative positions.
        memory_length: int M.

    Returns:
        The graph.
    """
    backbone = lm.backbone
    terms = constant_terms(lm, memory_length)
    return Graph(
        functools.partial(_read_segment, lm, memory_length, terms),
        (
            Value("input_ids", (BATCH, SEGMENT), "int64"),
            Value("attention_mask", (BATCH, TOTAL), "int64"),
            *cache_values(backbone, "past_key_values", PAST),
        ),
        (
            Value("logits", logits_shape(lm), "float32"),
            *cache_values(backbone, "present", TOTAL),
        ),
        (*lm.weights, *variables(terms)),
    )


def _read_segment(
    lm: Any,
    memory_length: int,
    terms: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    *past: Tensor,
) -> list[Tensor]:
    """Logits, and the keys and values of all tokens."""
    backbone = lm.backbone
    window = visible_keys(backbone, memory_length)
    queries = ops.shape(input_ids)[1]
    before = ops.shape(past[0])[2]
    begin = before - ops.minimum(before, memory_length)
    valid = (attention_mask > 0)[:, begin:]  # (B, P + T)
    empty_slots = memory_length if backbone.attend_empty_memory else 0
    keys_length = empty_slots + ops.shape(valid)[1]
    mask = causal_mask(queries, keys_length, window)
    if not backbone.attend_empty_memory:
        mask = ops.logical_and(mask, valid[:, None, None])
    to_keys, to_distances = _moves(keys_length, memory_length)
    hidden = backbone.embed(ops.cast(input_ids, "int32"))
    present = []
    for index, block in enumerate(backbone.transformer_layers):
        context = block.normalize_context(hidden)
        new = key_and_value(block, context)
        cached = [
            ops.concatenate(both, axis=2)
            for both in zip(past[2 * index : 2 * index + 2], new, strict=True)
        ]  # (B, N, P + T, H)
        present += cached
        near = [rows[:, :, begin:] for rows in cached]
        if backbone.attend_empty_memory:
            empty = empty_slot(backbone, block)
            near = [
                _before_text(*both, valid, memory_length)
                for both in zip(near, empty, strict=True)
            ]
        attended = attend_by_head(
            block.attention,
            context if block.normalize_first else hidden,
            [(near[0], near[1])],
            terms[index],
            mask,
            to_keys=to_keys,
            to_distances=to_distances,
        )
        hidden = block.finish(hidden, attended)
    return [logits_of(lm, hidden), *present]


def _moves(keys_length: Any, memory_length: int) -> tuple[Any, Any]:
    """From the M + 1 distances to the keys at hand, and back."""
    return (
        lambda rows: relative_shift(_last_columns(rows, keys_length)),
        lambda rows: _last_columns(
            weights_by_distance(rows), memory_length + 1
        ),
    )


def constant_terms(lm: Any, memory_length: int) -> list[dict[str, Any]]:
    """For each layer what distances M, ..., 0 add, computed once."""
    return [
        {
            name: keras.Variable(rows, trainable=False, name=f"{name}_{index}")
            for name, rows in layer.items()
        }
        for index, layer in enumerate(TokenDecoder(lm, memory_length).terms())
    ]


def variables(terms: list[dict[str, Any]]) -> list[Any]:
    return [table for layer in terms for table in layer.values()]


def visible_keys(backbone: Any, memory_length: int) -> int:
    """Keys a token sees: itself and the M before it, or fewer."""
    window = backbone.attention_mask.window(memory_length)
    if window is None:
        return memory_length + 1
    return min(int(window), memory_length + 1)


def logits_of(lm: Any, hidden: Tensor) -> Tensor:
    one_document = ops.zeros(ops.shape(hidden)[:2], "int32")
    return lm.head.logits(hidden, one_document)


def cache_values(
    backbone: Any, name: str, length: int | str
) -> tuple[Value, ...]:
    shape = (BATCH, backbone.num_heads, length, backbone.head_dim)
    return tuple(
        Value(f"{name}.{index}.{part}", shape, "float32")
        for index in range(backbone.num_layers)
        for part in ("key", "value")
    )


def empty_slot(backbone: Any, block: Any) -> list[Any]:
    """Key and value (1, N, 1, H) of a slot that holds nothing, a constant."""
    nothing = ops.zeros((1, 1, backbone.hidden_dim))
    rows = key_and_value(block, block.normalize_context(nothing))
    return list(rows)


def _before_text(
    rows: Tensor, empty: Tensor, valid: Tensor, slots: int
) -> Tensor:
    """Put empty slots in front of rows, and in place of invalid ones.

    Args:
        rows: tensor of shape `(batch, num_heads, keys, head_dim)`.
        empty: tensor of shape `(1, num_heads, 1, head_dim)`.
        valid: bool tensor of shape `(batch, keys)`.
        slots: int, how many to put in front.

    Returns:
        Tensor of shape `(batch, num_heads, slots + keys, head_dim)`.
    """
    rows = ops.where(valid[:, None, :, None], rows, empty)
    front = ops.repeat(ops.zeros_like(rows[:, :, :1]) + empty, slots, axis=2)
    return ops.concatenate([front, rows], axis=2)


def _last_columns(rows: Tensor, count: int | Tensor) -> Tensor:
    """The last `count` columns of `(B, N, T, R)`, zeros before the first."""
    width = ops.shape(rows)[-1]
    padded = ops.pad(rows, [[0, 0], [0, 0], [0, 0], [count, 0]])
    return padded[..., width:]
