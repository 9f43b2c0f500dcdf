"""Configurations of other code as arguments of our backbone."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from numbers import Integral
from numbers import Real
from typing import Any

REQUIRED = object()
"""In place of a default: the key must be there."""


def read_keys(
    config: Mapping[str, Any],
    defaults: Mapping[str, Any],
    ignored: Collection[str] = (),
) -> dict[str, Any]:
    """A complete configuration: the given keys and defaults of the others.

    Args:
        config: what the caller passed.
        defaults: value of each key that is left out, or `REQUIRED`.
        ignored: keys that do not change what a model computes.

    Returns:
        Dict of exactly the keys of `defaults`.

    Raises:
        ValueError: if a required key is missing, a key is unknown or a value
            is of another type.
    """
    missing = [
        key
        for key, default in defaults.items()
        if default is REQUIRED and key not in config
    ]
    unknown = sorted(set(config) - set(defaults) - set(ignored))
    if missing or unknown:
        raise ValueError(
            "`config` must have the keys of the code that trained the model. "
            f"Received: missing keys: {', '.join(missing) or 'none'}; unknown "
            f"keys: {', '.join(unknown) or 'none'}. Known keys: "
            f"{', '.join(defaults)}. Add what is missing, and leave out or "
            "rename what is unknown."
        )
    keys = {key: config.get(key, default) for key, default in defaults.items()}
    wrong = [
        f"{key}={keys[key]!r} (must be {kind})"
        for key, default in defaults.items()
        if (kind := _unlike(keys[key], default))
    ]
    if wrong:
        raise ValueError(
            "`config` must have values of the types of the code that trained "
            f"the model. Received: {', '.join(wrong)}. Correct them, without "
            "quotes around numbers."
        )
    return keys


def _unlike(value: Any, default: Any) -> str | None:
    """What the value of a key must be, if it is not; None may be anywhere."""
    if value is None and default is not REQUIRED:
        return None
    if isinstance(default, bool):
        return None if value in (True, False) else "true or false"
    number = isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(default, float):
        return None if number else "a number"
    if isinstance(default, list):
        listed = isinstance(value, Iterable) and not isinstance(value, str)
        return None if listed else "a list"
    if isinstance(default, int) or default is REQUIRED:
        whole = number and isinstance(value, Integral)
        return None if whole else "an integer"
    return None


def refuse_extended_context(keys: Mapping[str, Any]) -> None:
    """Raise if the model was run with `ext_len`, which we do not have."""
    if (keys["ext_len"] or 0) > 0:
        raise ValueError(
            "`ext_len` must be 0: this library has no extended context (the "
            "original reads those tokens twice). Received: ext_len="
            f"{keys['ext_len']}. Pass ext_len=0 and a mem_len that is longer "
            "by as much: the weights do not depend on it."
        )


def refuse_sampled_softmax(keys: Mapping[str, Any]) -> None:
    """Raise if the output layer is that of the original's sampled softmax."""
    if (keys["sample_softmax"] or 0) > 0:
        raise ValueError(
            "`sample_softmax` must be -1: the original's sampled softmax "
            "cannot run as released, so it has no weights to convert. "
            f"Received: sample_softmax={keys['sample_softmax']}. Pass "
            "sample_softmax=-1 for weights of the whole softmax, and "
            "num_sampled to train with ours."
        )


def refuse_square_projection(keys: Mapping[str, Any]) -> None:
    """Raise if one bin has a projection between two equal widths.

    Without tails `div_val` makes nothing narrower, but any other than 1 adds
    that projection in the PyTorch codes.
    """
    width = keys["d_model"] if keys["d_embed"] is None else keys["d_embed"]
    if (
        keys["div_val"] != 1
        and not keys["cutoffs"]
        and width == keys["d_model"]
    ):
        raise ValueError(
            "`div_val` must be 1 without `cutoffs` where `d_embed` is "
            "`d_model`: the source then has projections of one width to the "
            "same, which no model here has. Received: "
            f"div_val={keys['div_val']}, d_embed={width}, d_model="
            f"{keys['d_model']}, no cutoffs. Multiply each table by its "
            "projection (table @ projection.T), leave the projections out "
            "and pass div_val=1; tie_weight=False if their products differ."
        )


def none_unless_positive(value: int | None) -> int | None:
    """Lengths that the sources switch off by -1 or 0, and we by `None`."""
    return value if value is not None and value > 0 else None


def shared_arguments(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that have one meaning in every source."""
    return {
        "num_layers": keys["n_layer"],
        "num_heads": keys["n_head"],
        "hidden_dim": keys["d_model"],
        "head_dim": keys["d_head"],
        "intermediate_dim": keys["d_inner"],
        "embedding_dim": keys["d_embed"],
        "memory_length": keys["mem_len"] or 0,
        "clamp_length": none_unless_positive(keys["clamp_len"]),
        "dropout": keys["dropout"],
        "attention_dropout": keys["dropatt"],
        "initializer_range": keys["init_std"],
        "activation": "relu",
    }


def bin_arguments(
    cutoffs: Sequence[int] | None, div_val: int, tied: Sequence[bool]
) -> dict[str, Any]:
    """The arguments of an adaptive embedding and softmax, or of plain ones.

    Args:
        cutoffs: first ids of the tails; none for a plain softmax.
        div_val: int. Means nothing without tails.
        tied: whether a bin's projections are one; bins that it does not
            reach have two.
    """
    bins = [*(cutoffs or ()), None]
    tie_projections = [*map(bool, tied or ()), *(False for _ in bins)][
        : len(bins)
    ]
    if not cutoffs:
        return {"tie_projections": tie_projections[0]}
    return {
        "cutoffs": list(cutoffs),
        "div_val": div_val,
        "tie_projections": tie_projections,
    }
