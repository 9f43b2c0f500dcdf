"""Argument checks and their texts: what must hold, what came, the way out."""

from numbers import Integral
from numbers import Real
from typing import Any


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
