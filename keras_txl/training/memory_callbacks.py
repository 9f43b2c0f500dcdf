"""Memory that is emptied at fixed times of `fit`, in any Keras model."""

import keras

from keras_txl.checks import check_integer
from keras_txl.models.stateful_model import memories_of


class ResetMemory(keras.callbacks.Callback):
    """Empties the memory of a model when training and evaluation begin.

    The models of `keras_txl.models` reset their memory by themselves where
    their data starts anew. This is for a plain `keras.Model` with
    `SegmentMemory` layers, and for a reset every so many epochs of one
    endless stream.

    The training bank is emptied at the beginning of every epoch whose number,
    counted from 0, is a multiple of `epochs`; the evaluation bank before each
    evaluation and prediction.

    Args:
        epochs: epochs between two resets of the training bank.

    Example:

    ```python
    lm.fit(
        stream.repeat(),
        steps_per_epoch=2,
        epochs=3,
        callbacks=[keras_txl.training.ResetMemory(epochs=1)],
    )
    ```
    """

    def __init__(self, epochs: int = 1) -> None:
        super().__init__()
        self.epochs = check_integer("epochs", epochs, 1)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        if epoch % self.epochs == 0:
            self._reset("train")

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        self._reset("eval")

    def on_predict_begin(self, logs: dict[str, float] | None = None) -> None:
        self._reset("eval")

    def _reset(self, bank: str) -> None:
        for memory in memories_of(self.model):
            memory.reset_state(bank)
