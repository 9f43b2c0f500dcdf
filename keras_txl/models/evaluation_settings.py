"""Window and clamping of one evaluation, on a model that stays as it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras_txl.checks import AS_BUILT
from keras_txl.checks import check_optional_integer
from keras_txl.layers.attention_mask import check_window

NOT_CLAMPED = ("relative_clipped", "none")


@contextmanager
def evaluation_settings(
    lm: Any,
    attention_window: int | str | None = AS_BUILT,
    clamp_length: int | str | None = AS_BUILT,
) -> Iterator[None]:
    """Lets `step` and `token_losses` use another window and clamp length.

    Within the block the model is not to be used by another thread.

    Args:
        lm: a `TransformerXLCausalLM`.
        attention_window: as `eval_attention_window` of the backbone.
        clamp_length: as `eval_clamp_length` of the backbone.

    Raises:
        ValueError: if a value is out of range, or the positions of the model
            know no clamp length.
    """
    mask = lm.backbone.attention_mask
    encodings = clamped_layers(lm.backbone)
    window = mask.eval_attention_window
    clamps = [layer.eval_clamp_length for layer in encodings]
    new_window, new_clamps = window, clamps
    if attention_window != AS_BUILT:
        check_window("attention_window", attention_window)
        new_window = attention_window
    if clamp_length != AS_BUILT:
        check_optional_integer("clamp_length", clamp_length, 1)
        if clamp_length is not None and not encodings:
            raise ValueError(
                "`clamp_length` has no effect on a model with position="
                f"{lm.backbone.position!r}. Received: clamp_length="
                f"{clamp_length}. Leave it out."
            )
        new_clamps = [clamp_length] * len(encodings)
    try:
        _put(mask, encodings, new_window, new_clamps)
        yield
    finally:
        _put(mask, encodings, window, clamps)


def settings_in_use(backbone: Any) -> tuple[Any, ...]:
    """Window and clamp lengths that a function compiled now would use."""
    return (
        backbone.attention_mask.eval_attention_window,
        *(layer.eval_clamp_length for layer in clamped_layers(backbone)),
    )


def clamped_layers(backbone: Any) -> list[Any]:
    """Layers that clamp distances, each once."""
    if backbone.position in NOT_CLAMPED:
        return []
    found = [backbone.distance_encoding]
    for absolute in backbone.absolute_positions:
        found.append(absolute and absolute.encoding)
    for block in backbone.transformer_layers:
        terms = block.attention.position_terms
        found.extend(terms.tables().values() if terms is not None else ())
    # Layers may share one.
    return list({id(layer): layer for layer in found if layer}.values())


def _put(mask: Any, encodings: list[Any], window: Any, clamps: Any) -> None:
    mask.eval_attention_window = window
    for layer, clamp in zip(encodings, clamps, strict=True):
        layer.eval_clamp_length = clamp
