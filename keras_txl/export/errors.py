"""What goes wrong in an export that a caller may want to catch."""


class ExportMismatchError(ValueError):
    """An exported file does not compute what the Keras model computes.

    No file is left behind.

    Args:
        target: what was exported, for the message.
        max_abs_error: largest absolute difference that was seen.
        tolerance: what would have been accepted, in units of
            `max(1, |expected|)`.
        worst: where the worst difference was seen.
    """

    def __init__(
        self, target: str, max_abs_error: float, tolerance: float, worst: str
    ) -> None:
        self.values = (target, max_abs_error, tolerance, worst)
        self.max_abs_error = max_abs_error
        self.tolerance = tolerance
        super().__init__(
            f"The exported {target} must compute what the Keras model "
            f"computes. Received: a difference of {max_abs_error:.3g} in "
            f"{worst}, more than {tolerance:g} of max(1, |expected|). Nothing "
            "was written. Please report this with the model's configuration."
        )
