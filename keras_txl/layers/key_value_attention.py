"""Attention over keys and values that stand by heads, some of them cached.

Axes: B rows, N heads, T new tokens, S keys, R distances, H head width,
D hidden width.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.attention_softmax import masked_softmax
from keras_txl.layers.transformer_xl_block import TransformerXLBlock


def by_head(rows: Tensor) -> Tensor:
    """`(B, T, N, H)` as `(B, N, T, H)`."""
    return ops.transpose(rows, (0, 2, 1, 3))


def key_and_value(
    block: TransformerXLBlock, context: Tensor
) -> tuple[Tensor, Tensor]:
    """Keys and values of a layer.

    Args:
        block: the layer.
        context: float tensor of shape `(batch, tokens, hidden_dim)`, from
            `normalize_context`.

    Returns:
        Two tensors of shape `(batch, num_heads, tokens, head_dim)`.
    """
    attention = block.attention
    return (
        by_head(attention.key_projection(context)),
        by_head(attention.value_projection(context)),
    )


def terms_by_head(terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tables of `distance_terms` with the heads in front.

    Args:
        terms: some of `relative_key (R, N, H)`, `distance_bias (R, N)` and
            `relative_value (R, H)`.

    Returns:
        `(N, R, H)`, `(N, 1, R)` and `(R, H)`.
    """
    axes = {"relative_key": (1, 0, 2), "distance_bias": (1, 0)}
    terms = {
        name: ops.transpose(rows, axes.get(name)) if name in axes else rows
        for name, rows in terms.items()
    }
    if "distance_bias" in terms:
        terms["distance_bias"] = terms["distance_bias"][:, None]
    return terms


def attend_by_head(
    attention: Any,
    query: Tensor,
    parts: Sequence[tuple[Tensor, Tensor]],
    terms: dict[str, Tensor],
    mask: Tensor,
    to_keys: Callable[[Tensor], Tensor],
    to_distances: Callable[[Tensor], Tensor],
) -> Tensor:
    """The four terms of `relative_attention_scores`, softmax and projection.

    Args:
        attention: a `RelativeMultiHeadAttention`.
        query: float tensor of shape `(batch, tokens, hidden_dim)`.
        parts: keys and values `(batch, num_heads, keys, head_dim)`. They
            count as one after the other, but are never joined, which would
            copy a cache.
        terms: from `terms_by_head`.
        mask: bool tensor of shape `(batch, 1, tokens, keys)`.
        to_keys: from `(B, N, T, R)`, a column for each row of `terms`, to
            `(B, N, T, S)`.
        to_distances: the way back, for weights.

    Returns:
        Float tensor of shape `(batch, tokens, hidden_dim)`.
    """
    heads = attend_heads(
        attention,
        by_head(attention.query_projection(query)),
        parts,
        terms,
        mask,
        to_keys,
        to_distances,
    )
    return attention.output_projection(heads)  # (B, T, D)


def attend_heads(
    attention: Any,
    query: Tensor,
    parts: Sequence[tuple[Tensor, Tensor]],
    terms: dict[str, Tensor],
    mask: Tensor,
    to_keys: Callable[[Tensor], Tensor],
    to_distances: Callable[[Tensor], Tensor],
    keys_axes: str = "bnsh",
) -> Tensor:
    """`attend_by_head` between the projections of query and output.

    Args:
        attention: see there, as all that is not named here.
        query: float tensor of shape `(batch, num_heads, tokens, head_dim)`.
        parts: see there.
        terms: see there.
        mask: see there.
        to_keys: see there.
        to_distances: see there.
        keys_axes: order of the axes of the keys.

    Returns:
        Float tensor of shape `(batch, tokens, num_heads, head_dim)`.
    """
    biases = attention.attention_biases
    content = position = query
    if biases is not None:
        # Outside of a layer's call nothing casts the weights by itself.
        content = query + ops.cast(biases.content_bias, query.dtype)[:, None]
        if biases.position_bias is not None:
            bias = ops.cast(biases.position_bias, query.dtype)
            position = query + bias[:, None]
    scores = _join(
        [
            ops.einsum(f"bnth,{keys_axes}->bnts", content, keys)
            for keys, _ in parts
        ]
    )  # (a), (c)
    if "relative_key" in terms:
        by_distance = ops.einsum(
            "bnth,nrh->bntr", position, terms["relative_key"]
        )  # (b), (d)
        if "distance_bias" in terms:
            by_distance += terms["distance_bias"]
        scores += to_keys(by_distance)
    scores = ops.multiply(scores, query.shape[-1] ** -0.5)
    weights = masked_softmax(scores, mask, attention.logit_cap)
    heads: Any = 0
    begin: Any = 0
    for _, values in parts:
        end = begin + ops.shape(values)[2]
        heads += ops.einsum("bnts,bnsh->bnth", weights[..., begin:end], values)
        begin = end
    if "relative_value" in terms:
        heads += ops.einsum(
            "bntr,rh->bnth", to_distances(weights), terms["relative_value"]
        )
    return by_head(heads)


def _join(parts: Sequence[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    return ops.concatenate(parts, axis=-1)
