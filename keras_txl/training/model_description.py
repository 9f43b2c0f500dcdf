"""What a model must be for a run to go on with it, beside its shapes."""

import json
from typing import Any

# They change how a step is computed, not what.
FREE = ("name", "trainable", "remat", "loss_chunk")


def describe_model(model: Any) -> dict[str, Any]:
    """Settings of a model that the shapes of its variables do not tell.

    Args:
        model: a compiled model.

    Returns:
        The kind of its optimizer (and of the one within), and the settings of
        its backbone, if it has one, as JSON holds them.
    """
    kinds = []
    optimizer = model.optimizer
    while optimizer is not None:
        kinds.append(type(optimizer).__name__)
        optimizer = getattr(optimizer, "inner_optimizer", None)
    described = {"optimizer": "/".join(kinds)}
    backbone = getattr(model, "backbone", None)
    if backbone is not None:
        config = backbone.get_config()
        config["dtype"] = backbone.dtype_policy.name
        described |= {k: v for k, v in config.items() if k not in FREE}
    plain: dict[str, Any] = json.loads(json.dumps(described, default=str))
    return plain


def check_model(then: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise unless two descriptions are of one model.

    A setting that only one of them has is no difference.

    Args:
        then: description in a checkpoint.
        now: description of the model that is to be trained on.

    Raises:
        ValueError: with the settings that differ.
    """
    told = ", ".join(
        f"{name}={now[name]!r} (checkpoint: {old!r})"
        for name, old in then.items()
        if name in now and old != now[name]
    )
    if told:
        raise ValueError(
            "The model and optimizer must be those of the checkpoint. "
            f"Received: {told}. Build and compile the model as in the first "
            "run; to begin another run with its variables, call "
            "`ResumeTraining(folder).restore(model)` and train with another "
            "folder."
        )
