"""What saving and loading of presets needs beyond KerasHub.

Weights do not depend on the batch size, the memory length, the windows, the
dropout and the like: a preset may be loaded with other values of these.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras_txl.models.backbone import CONFIG


@contextmanager
def without_optimizer(lm: Any) -> Iterator[None]:
    """KerasHub would write the optimizer into presets and miss it later."""
    optimizer = lm.optimizer
    lm.optimizer = None
    try:
        yield
    finally:
        lm.optimizer = optimizer


def split_backbone_arguments(
    arguments: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part arguments into those of the backbone and the others."""
    own = {k: v for k, v in arguments.items() if k in CONFIG}
    return own, {k: v for k, v in arguments.items() if k not in CONFIG}


def with_backbone_arguments(lm: Any, arguments: dict[str, Any]) -> Any:
    """A model like `lm`, with its weights, and some arguments changed.

    Args:
        lm: a `TransformerXLCausalLM`.
        arguments: arguments of `TransformerXLBackbone`.

    Returns:
        A new model.

    Raises:
        ValueError: if the weights do not fit the arguments.
    """
    config = {**lm.backbone.get_config(), **arguments}
    backbone = type(lm.backbone).from_config(config)
    changed = type(lm)(backbone, lm.preprocessor, name=lm.name)
    new, old = changed.trainable_variables, lm.trainable_variables
    shapes = [tuple(v.shape) for v in new], [tuple(v.shape) for v in old]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "The weights of the preset must fit the arguments. Received: "
            f"{arguments}, which change the number or shape of weights. Leave "
            "out what belongs to the architecture."
        )
    for variable, value in zip(new, old, strict=True):
        variable.assign(value)
    return changed
