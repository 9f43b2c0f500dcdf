"""A model from the arguments of a source, with errors in the source's words."""

import re
from typing import Any

from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM

_SOURCE_NAMES = {
    "vocabulary_size": "n_token or vocab_size",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "hidden_dim": "d_model",
    "head_dim": "d_head",
    "intermediate_dim": "d_inner",
    "embedding_dim": "d_embed",
    "memory_length": "mem_len",
    "clamp_length": "clamp_len",
    "attention_dropout": "dropatt",
    "tie_projections": "tie_projs",
    "initializer_range": "init_std",
}


def build_model(
    arguments: dict[str, Any], overrides: dict[str, Any]
) -> TransformerXLCausalLM:
    """A model without its weights yet.

    Args:
        arguments: of `TransformerXLBackbone`, read from a configuration.
        overrides: arguments of the caller, which win.

    Returns:
        A `TransformerXLCausalLM` without a preprocessor.

    Raises:
        ValueError: if an argument is out of range; the message says what
            the source calls it.
    """
    try:
        backbone = TransformerXLBackbone(**{**arguments, **overrides})
    except ValueError as error:
        told = ", ".join(
            f"`{ours}` is {theirs}"
            for ours, theirs in _SOURCE_NAMES.items()
            if ours not in overrides and re.search(rf"\b{ours}\b", str(error))
        )
        if not told:
            raise
        raise ValueError(f"{error} In `config`, {told}.") from error
    return TransformerXLCausalLM(backbone)
