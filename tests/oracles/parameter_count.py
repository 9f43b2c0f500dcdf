"""How many weights a language model has, counted without making it.

Axes: D hidden width, E embedding width, F inner width, N heads, H head width.
"""

from typing import Any


def count_backbone_parameters(
    *,
    vocabulary_size: int,
    num_layers: int,
    num_heads: int,
    hidden_dim: int,
    intermediate_dim: int,
    head_dim: int | None = None,
    embedding_dim: int | None = None,
    cutoffs: tuple[int, ...] | list[int] | None = None,
    div_val: int = 1,
    tie_embeddings: bool = True,
    tie_projections: Any = None,
    share_attention_biases: bool = True,
    memory_layer_norm: bool = False,
    **without_weights: Any,
) -> int:
    """Weights of a language model with sinusoidal positions, without it.

    Nothing is allocated: the largest published model would take 3.4 GB.

    Args:
        vocabulary_size: see `TransformerXLBackbone`, as are all others.
        num_layers: int.
        num_heads: int.
        hidden_dim: int.
        intermediate_dim: int.
        head_dim: int.
        embedding_dim: int.
        cutoffs: tuple of int.
        div_val: int.
        tie_embeddings: bool.
        tie_projections: bool, one bool a bin, or `None`.
        share_attention_biases: bool.
        memory_layer_norm: bool.
        **without_weights: arguments that add no weight.

    Returns:
        Number of trainable numbers of a `TransformerXLCausalLM`.
    """
    heads = num_heads * (head_dim or hidden_dim // num_heads)
    width = embedding_dim or hidden_dim
    attention = 5 * hidden_dim * heads  # query, key, value, distances, output
    feed_forward = 2 * hidden_dim * intermediate_dim
    biases = intermediate_dim + hidden_dim
    norms = (6 if memory_layer_norm else 4) * hidden_dim
    blocks = num_layers * (attention + feed_forward + biases + norms)
    u_and_v = 2 * heads * (1 if share_attention_biases else num_layers)
    ends = [0, *(cutoffs or ()), vocabulary_size]
    bins = len(ends) - 1
    tied = _tied_bins(tie_projections, bins)
    widths = [width // div_val**index for index in range(bins)]
    tables = sum(
        (ends[index + 1] - ends[index]) * widths[index] for index in range(bins)
    )
    projections = _count_projections(hidden_dim, widths, div_val, tied)
    clusters = (bins - 1) * (width + 1)
    return (
        blocks
        + u_and_v
        + tables * (1 if tie_embeddings else 2)
        + projections
        + clusters
        + vocabulary_size  # output biases
    )


def _tied_bins(tie_projections: Any, bins: int) -> list[bool]:
    if tie_projections is None:  # as released: all but the first
        return [False] + [True] * (bins - 1)
    if isinstance(tie_projections, bool):
        return [tie_projections] * bins
    return [bool(tied) for tied in tie_projections]


def _count_projections(
    hidden_dim: int, widths: list[int], div_val: int, tied: list[bool]
) -> int:
    own = [
        size for size, is_tied in zip(widths, tied, strict=True) if not is_tied
    ]
    if div_val > 1:
        return hidden_dim * (sum(widths) + sum(own))
    if widths[0] == hidden_dim:
        return 0
    return hidden_dim * (widths[0] + sum(own))
