"""`ResetMemory` empties the banks when it says."""

import keras
import numpy as np
import pytest

from keras_txl.layers import SegmentMemory
from keras_txl.training import ResetMemory
from tests.tolerances import to_numpy


@pytest.fixture(scope="module")
def model():
    """A plain Keras model, which resets nothing by itself."""
    inputs = keras.Input((None, 3))
    context, _ = SegmentMemory(8, batch_size=2, name="memory")(inputs)
    outputs = keras.layers.Dense(1)(context[:, -2:])
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    return model


class Lengths(keras.callbacks.Callback):
    """Tokens in a bank behind each step."""

    def __init__(self, bank):
        super().__init__()
        self.bank = bank
        self.seen = []

    def look(self, batch, logs=None):
        memory = self.model.get_layer("memory")
        length = getattr(memory, f"{self.bank}_length")
        self.seen.append(int(to_numpy(length)[0]))

    on_train_batch_end = on_test_batch_end = on_predict_batch_end = look


X = np.random.default_rng(0).normal(size=(4, 2, 3)).astype("float32")
Y = np.zeros((4, 2, 1), "float32")


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, [2, 4, 2, 4, 2, 4]), (2, [2, 4, 6, 8, 2, 4])],
)
def test_the_training_bank_is_emptied_every_so_many_epochs(
    model, epochs, expected
):
    lengths = Lengths("train")
    model.fit(
        X,
        Y,
        batch_size=2,
        epochs=3,
        shuffle=False,
        callbacks=[ResetMemory(epochs), lengths],
        verbose=0,
    )
    assert lengths.seen == expected


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_the_evaluation_bank_is_emptied_before_each_use(model, method):
    for _ in range(2):
        lengths = Lengths("eval")
        data = (X, Y) if method == "evaluate" else (X,)
        getattr(model, method)(
            *data, batch_size=2, callbacks=[ResetMemory(), lengths], verbose=0
        )
        assert lengths.seen == [2, 4]


def test_epochs_must_be_positive():
    with pytest.raises(ValueError, match="`epochs` must be"):
        ResetMemory(0)
