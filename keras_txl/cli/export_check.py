"""How the check of an exported model is told."""

from typing import Any


def told(check: dict[str, Any]) -> str:
    """Lines about the differences that a check has measured."""
    errors = check["max_abs_error"]
    line = "Largest difference to the Keras model: " + ", ".join(
        f"{name} {error:.1e}" for name, error in errors.items()
    )
    if "mean_loss_difference" in check:
        line += f"; mean of the losses {check['mean_loss_difference']:.1e} nats"
    return line
