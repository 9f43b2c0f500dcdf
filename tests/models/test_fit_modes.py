"""Compiled or not: `fit` gives the same losses, with documents and memory."""

import keras
import pytest

from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close


class MeanSoFar(keras.callbacks.Callback):
    """The loss that Keras reports after each batch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


def train(lm, stream, **arguments):
    randomize(lm, seed=7)
    each = MeanSoFar()
    history = lm.fit(
        stream, epochs=2, callbacks=[each], verbose=0, **arguments
    ).history
    return each.losses, history


# On PyTorch the plain `fit` is the eager one.
@pytest.mark.backend("tensorflow", "jax")
def test_eager_training_gives_the_losses_of_the_compiled_one(
    make_lm, lm, stream, monkeypatch
):
    expected, history = train(lm, stream, validation_data=stream)
    eager = make_lm()
    eager.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    calls = []
    first = eager.backbone.token_embedding
    embed = first.call
    monkeypatch.setattr(
        first, "call", lambda *a, **k: calls.append(1) or embed(*a, **k)
    )
    losses, told = train(eager, stream, validation_data=stream)
    steps = 2 * len(stream)
    assert len(losses) == steps
    assert len(calls) >= 2 * steps  # as Python, and not once to be compiled
    assert_close(losses, expected, tolerances.FLOAT32, "losses")
    assert_close(
        told["val_loss"],
        history["val_loss"],
        tolerances.FLOAT32,
        "validation losses",
    )
