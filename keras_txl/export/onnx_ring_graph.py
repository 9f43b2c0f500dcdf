"""A graph for ONNX with memory as a ring of keys and values, token by token.

It computes what `attend_by_head` does, written for runtimes in which each
operation costs as much as reading thousands of numbers: few operations, all
of tensors without an axis for the single token where a product needs none.

Axes: B rows, M memory slots, S = M + 1 keys, N heads, H head width, D hidden
width.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.export.onnx_key_value_graphs import cache_values
from keras_txl.export.onnx_key_value_graphs import constant_terms
from keras_txl.export.onnx_key_value_graphs import empty_slot
from keras_txl.export.onnx_key_value_graphs import logits_of
from keras_txl.export.onnx_key_value_graphs import variables
from keras_txl.export.onnx_key_value_graphs import visible_keys
from keras_txl.export.onnx_signature import BATCH
from keras_txl.export.onnx_signature import Graph
from keras_txl.export.onnx_signature import Value
from keras_txl.export.onnx_signature import logits_shape
from keras_txl.layers.attention_softmax import cap_logits
from keras_txl.layers.ring_decoding import token_products

UNSEEN = -1e30
"""Is added to the score of a key out of sight: its weight is exactly 0."""


def ring_graph(lm: Any, memory_length: int) -> Graph:
    """One token, with a ring of the keys and values of the last M in.

    Out come the keys and values of the token. It stands at `position`, counted
    from any start; the caller writes them to slot `position mod M`, where the
    token stood that has just gone out of sight. `length` slots are valid.

    Args:
        lm: a `TransformerXLCausalLM` with relative positions.
        memory_length: int M.

    Returns:
        The graph.
    """
    backbone = lm.backbone
    terms = constant_terms(lm, memory_length)
    return Graph(
        functools.partial(_read_token, lm, memory_length, terms),
        (
            Value("input_ids", (BATCH, 1), "int64"),
            Value("position", (BATCH,), "int64"),
            Value("length", (BATCH,), "int64"),
            *cache_values(backbone, "ring", memory_length),
        ),
        (
            Value("logits", logits_shape(lm, 1), "float32"),
            *cache_values(backbone, "new", 1),
        ),
        (*lm.weights, *variables(terms)),
    )


def _read_token(
    lm: Any,
    memory_length: int,
    terms: Any,
    input_ids: Tensor,
    position: Tensor,
    length: Tensor,
    *ring: Tensor,
) -> list[Tensor]:
    """Logits, and the keys and values of the token."""
    backbone = lm.backbone
    heads = backbone.num_heads
    seen_keys = visible_keys(backbone, memory_length)
    slots = np.arange(memory_length, dtype="int64")
    slot = ops.expand_dims(position % memory_length, 1)  # (B, 1)
    # Row `r` of a table stands for distance `M - r`. Only numbers from 0
    # on: `%` of ONNX truncates towards 0.
    rows = (slots + memory_length - slot) % memory_length  # (B, M)
    distances = memory_length - rows
    valid = distances <= ops.expand_dims(length, 1)
    filled = None if backbone.attend_empty_memory else valid
    unseen = _bias_of_unseen(distances, filled, seen_keys, memory_length)
    to_keys = _places(rows, slot, heads)
    to_distances = _places((slot + slots) % memory_length, slot, heads)
    hidden = backbone.embed(ops.cast(input_ids, "int32"))
    hidden = ops.reshape(hidden, (-1, backbone.hidden_dim))  # (B, D)
    new: list[Tensor] = []
    for index, block in enumerate(backbone.transformer_layers):
        content, *own = _project(block, hidden)
        new += own
        cached = ring[2 * index : 2 * index + 2]
        if backbone.attend_empty_memory:
            cached = _with_empty_slots(
                cached, valid, empty_slot(backbone, block)
            )
        attended = _attend(
            block.attention,
            content,
            [cached, tuple(own)],
            terms[index],
            unseen,
            to_keys,
            to_distances,
        )
        hidden = block.finish(hidden, _leave_heads(block, attended))
    return [logits_of(lm, hidden[:, None]), *new]


def _bias_of_unseen(
    distances: Tensor, filled: Tensor | None, seen_keys: int, slots: int
) -> Tensor:
    """0 for the keys that a token sees, `UNSEEN` for others (B, 1, M + 1, 1).

    `filled` (B, M) slots hold a token. `None`: empty ones are seen, too.
    """
    seen = distances < seen_keys
    if filled is not None and seen_keys > slots:
        seen = filled
    elif filled is not None:
        seen = ops.logical_and(filled, seen)
    bias = ops.cast(seen, "float32") * -UNSEEN + UNSEEN
    bias = ops.pad(bias, [[0, 0], [0, 1]])  # it sees itself
    return ops.reshape(bias, (-1, 1, slots + 1, 1))


def _with_empty_slots(
    cached: Sequence[Tensor], valid: Tensor, empty: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """What an empty slot is projected to, where no token stands."""
    return tuple(
        ops.where(valid[:, None, :, None], rows, slot)
        for rows, slot in zip(cached, empty, strict=True)
    )


def _project(block: Any, hidden: Tensor) -> list[Tensor]:
    """Query, key and value of a token, from (B, D).

    Returns:
        The query `(batch, num_heads, head_dim, 1)`, scaled for the softmax
        and with the bias for contents; key and value `(batch, num_heads, 1,
        head_dim)`.
    """
    attention = block.attention
    heads, width = attention.num_heads, attention.head_dim
    context = block.normalize_context(hidden)
    query = context if block.normalize_first else hidden
    # Constants, which end up in the weights and the bias of one product.
    scale = np.ones(3 * heads * width, "float32")
    scale[: heads * width] = width**-0.5
    products = token_products(block)
    if "projection" in products:
        rows = ops.matmul(query, products["projection"] * scale)
    else:
        rows = scale * ops.concatenate(
            [
                ops.reshape(project(given[:, None]), (-1, heads * width))
                for project, given in (
                    (attention.query_projection, query),
                    (attention.key_projection, context),
                    (attention.value_projection, context),
                )
            ],
            axis=1,
        )
    if attention.attention_biases is not None:
        bias = ops.reshape(attention.attention_biases.content_bias, (-1,))
        rows += scale * ops.pad(bias, [[0, 2 * heads * width]])
    content, key, value = ops.split(rows, 3, axis=1)
    return [
        ops.reshape(content, (-1, heads, width, 1)),
        ops.reshape(key, (-1, heads, 1, width)),
        ops.reshape(value, (-1, heads, 1, width)),
    ]


def _leave_heads(block: Any, attended: Tensor) -> Tensor:
    """The projection (B, D) of what the heads (B, N, 1, H) found."""
    attention = block.attention
    products = token_products(block)
    if "output" in products:
        width = attention.num_heads * attention.head_dim
        rows = ops.reshape(attended, (-1, width))
        return ops.matmul(rows, products["output"])
    shape = (-1, 1, attention.num_heads, attention.head_dim)
    projected = attention.output_projection(ops.reshape(attended, shape))
    return projected[:, 0]


def _attend(
    attention: Any,
    content: Tensor,
    parts: list[tuple[Tensor, ...]],
    terms: dict[str, Any],
    unseen: Tensor,
    to_keys: Tensor,
    to_distances: Tensor,
) -> Tensor:
    """What the heads find (B, N, 1, H).

    Args:
        attention: a `RelativeMultiHeadAttention`.
        content: from `_project`.
        parts: keys and values: of the ring `(batch, num_heads, slots,
            head_dim)`, then of the token itself, with one slot.
        terms: from `terms_by_head`.
        unseen: float tensor of shape `(batch, 1, slots + 1, 1)`, added to the
            scores.
        to_keys: from `_places`: the rows of a table in the order of the keys.
        to_distances: the way back, for weights.
    """
    scores = ops.concatenate(
        [ops.matmul(keys, content) for keys, _ in parts], axis=2
    )  # (B, N, S, 1)
    if "relative_key" in terms:
        by_distance = ops.matmul(
            terms["relative_key"], content + _other_bias(attention)
        )  # (B, N, R, 1)
        if "distance_bias" in terms:
            bias = ops.transpose(terms["distance_bias"], (0, 2, 1))
            by_distance += bias * content.shape[2] ** -0.5
        scores += _take(by_distance, to_keys)
    scores = cap_logits(scores, attention.logit_cap) + unseen
    size = unseen.shape[2]
    shape = (-1, attention.num_heads, 1, size)
    weights = ops.softmax(ops.reshape(scores, shape))
    attended = ops.matmul(weights[..., : size - 1], parts[0][1])
    attended += weights[..., size - 1 :] * parts[1][1]
    if "relative_value" in terms:
        by_distance = ops.reshape(_take(weights, to_distances), shape)
        attended += ops.matmul(by_distance, terms["relative_value"])
    return attended


def _other_bias(attention: Any) -> Any:
    """What makes the query for positions (N, H, 1) of that for contents."""
    biases = attention.attention_biases
    if biases is None:
        return 0.0
    bias = -biases.content_bias
    if biases.position_bias is not None:
        bias += biases.position_bias
    return ops.expand_dims(bias * attention.head_dim**-0.5, -1)


def _places(rows: Tensor, slot: Tensor, num_heads: int) -> Tensor:
    """Where `_take` finds what belongs to each key, in all heads.

    Args:
        rows: int tensor of shape `(batch, M)`. The token itself is row M.
        slot: int tensor of shape `(batch, 1)`; only its shape is read.
        num_heads: int.

    Returns:
        int tensor of shape `(batch, num_heads, M + 1, 1)`.
    """
    last = rows.shape[1]
    size = last + 1
    rows = ops.pad(rows, [[0, 0], [0, 1]], constant_values=last)
    # Behind those of the rows before it in the batch.
    rows += ops.cumsum(slot * 0 + num_heads * size, axis=0)
    heads = np.arange(-num_heads, 0, dtype="int64")[:, None, None] * size
    return ops.reshape(rows, (-1, 1, size, 1)) + heads


def _take(rows: Tensor, places: Tensor) -> Tensor:
    """The numbers of a tensor at `places`, counted through all its axes."""
    # Keras would look for negative places first, in every layer anew.
    import tensorflow as tf

    return tf.gather(tf.reshape(rows, [-1]), places)
