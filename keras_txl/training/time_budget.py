"""A budget of time for `fit`."""

import time

import keras

from keras_txl.checks import check_positive


class TimeBudget(keras.callbacks.Callback):
    """Stops `fit` at the end of a step once the time is spent.

    Args:
        seconds: wall time that training and validation may take together,
            counted from the beginning of `fit`.

    Example:

    ```python
    lm.fit(stream, epochs=100, callbacks=[TimeBudget(seconds=600)])
    ```
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = check_positive("seconds", seconds)
        self.spent = False
        self._deadline = float("inf")

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self.spent = False
        self._deadline = time.monotonic() + self.seconds

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        if time.monotonic() >= self._deadline:
            self.spent = True
            # Reading `model` synchronises JAX; so only when it is needed.
            self.model.stop_training = True
