"""Argument checks and their texts: what must hold, what came, the way out."""

import operator
from numbers import Integral
from numbers import Real
from typing import Any

AS_BUILT = "as_built"
"""Value of an argument that leaves a setting of the model as it is."""


def check_integer(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`.

    Args:
        name: name of the argument, for the message.
        value: what the caller passed.
        minimum: smallest allowed value.

    Returns:
        The value as a plain `int`.

    Raises:
        ValueError: if the value is no integer or is below `minimum`.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. "
            f"Received: {name}={value!r} of type {type(value).__name__}."
        )
    if value < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. "
            f"Received: {name}={value}."
        )
    return int(value)


def check_optional_integer(name: str, value: Any, minimum: int) -> int | None:
    """Like `check_integer`, but `None` passes."""
    return None if value is None else check_integer(name, value, minimum)


def check_fraction(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1).

    Raises:
        ValueError: if the value is no number or lies outside.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(
            f"`{name}` must be a number in [0, 1). "
            f"Received: {name}={value!r} of type {type(value).__name__}."
        )
    fraction = float(value)
    if not 0 <= fraction < 1:
        raise ValueError(
            f"`{name}` must be a number in [0, 1). Received: {name}={value}."
        )
    return fraction


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above 0.

    Raises:
        ValueError: if the value is no number, or is not above 0.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(
            f"`{name}` must be a number above 0. "
            f"Received: {name}={value!r} of type {type(value).__name__}."
        )
    if not 0 < float(value) < float("inf"):
        raise ValueError(
            f"`{name}` must be a number above 0. Received: {name}={value}."
        )
    return float(value)


def check_optional_positive(name: str, value: Any) -> float | None:
    """Like `check_positive`, but `None` passes."""
    return None if value is None else check_positive(name, value)


def check_weight(name: str, value: Any) -> float:
    """Like `check_positive`, but 0, which turns a loss off, passes."""
    off = value == 0 and not isinstance(value, bool)
    if off:
        return 0.0
    try:
        return check_positive(name, value)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be 0 or a number above 0. Received: "
            f"{name}={value!r}. 0 turns it off."
        ) from error


def resolve_head_dim(
    head_dim: int | None, hidden_dim: int, num_heads: int
) -> int:
    """Return `head_dim`, by default an equal share of `hidden_dim`.

    Raises:
        ValueError: if there is no equal share.
    """
    if head_dim is not None:
        return check_integer("head_dim", head_dim, 1)
    if hidden_dim % num_heads:
        lower = hidden_dim // num_heads * num_heads
        raise ValueError(
            "`hidden_dim` must be divisible by `num_heads`. Received: "
            f"hidden_dim={hidden_dim}, num_heads={num_heads}. Use hidden_dim="
            f"{lower or num_heads} or {lower + num_heads}, or pass `head_dim`."
        )
    return hidden_dim // num_heads


def check_cutoffs(cutoffs: Any, vocabulary_size: int) -> tuple[int, ...]:
    """Return the first ids of the tail bins of a vocabulary as ints.

    Raises:
        ValueError: if they do not cut the vocabulary into non-empty bins.
    """
    try:
        edges = [operator.index(cutoff) for cutoff in cutoffs]
    except TypeError:
        edges = []
    inside = [0, *edges, vocabulary_size]
    if not edges or sorted(set(inside)) != inside:
        raise ValueError(
            "`cutoffs` must be ascending integers inside "
            f"(0, vocabulary_size). Received: cutoffs={cutoffs!r}, "
            f"vocabulary_size={vocabulary_size}. Pass the first id of each "
            "tail, without the size of the vocabulary itself, or "
            "`cutoffs=None` for a plain softmax."
        )
    return tuple(edges)


def check_div_val(div_val: Any, embedding_dim: int, num_tails: int) -> int:
    """Return the factor by which each bin is narrower than the one before.

    Raises:
        ValueError: if the last bin would have no width.
    """
    div_val = check_integer("div_val", div_val, 1)
    if embedding_dim // div_val**num_tails < 1:
        raise ValueError(
            "`div_val` must leave every bin a width of at least 1. Received: "
            f"div_val={div_val}, {num_tails} cutoffs, embedding_dim="
            f"{embedding_dim}: the last bin would be {embedding_dim} // "
            f"{div_val}**{num_tails} wide. Use a smaller `div_val`, fewer "
            f"cutoffs or embedding_dim={div_val**num_tails} or more."
        )
    return div_val


def check_tied_projections(
    tie_projections: Any, num_bins: int
) -> tuple[bool, ...]:
    """Return for each bin whether its two projections are one.

    Args:
        tie_projections: `None` (the released runs: all but the first), a
            bool for all, or a bool for each bin.
        num_bins: int. Bins of the vocabulary; 1 without cutoffs.

    Raises:
        ValueError: if there is not one bool for each bin.
    """
    if tie_projections is None:
        return (False, *(True for _ in range(num_bins - 1)))
    if isinstance(tie_projections, bool):
        return (tie_projections,) * num_bins
    if (
        not isinstance(tie_projections, (list, tuple))
        or len(tie_projections) != num_bins
        or not all(isinstance(tied, bool) for tied in tie_projections)
    ):
        raise ValueError(
            "`tie_projections` must be None, a bool, or a list of one bool "
            f"for each of the {num_bins} bins (the cutoffs and one more). "
            f"Received: tie_projections={tie_projections!r}."
        )
    return tuple(tie_projections)


def check_keywords(owner: str, given: Any, known: tuple[str, ...]) -> None:
    """Refuse keyword arguments that a base class would ignore in silence.

    Args:
        owner: name of the class, for the message.
        given: the keyword arguments.
        known: names that the base class reads.

    Raises:
        TypeError: if there are others.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(
            f"`{owner}` has no arguments of these names. Received: "
            f"{', '.join(unknown)}. Besides its own arguments it takes "
            f"{', '.join(known)}."
        )


def check_language_model(lm: Any) -> None:
    """Refuse a model without losses of tokens.

    Args:
        lm: what should be a `TransformerXLCausalLM`.

    Raises:
        TypeError: if it is a backbone, a classifier, a model of vectors, ...
    """
    if not hasattr(lm, "token_losses"):
        raise TypeError(
            "`lm` must be a `TransformerXLCausalLM`. Received: "
            f"{type(lm).__name__}. Put a backbone of tokens under that head; "
            "read segments of any other model with `call_with_memory` of its "
            "backbone, and export it with `keras.export.ExportArchive`."
        )
