"""Compiled or not: `fit` gives the same losses, with documents and memory."""

import keras
import numpy as np
import pytest

from keras_txl.layers import SegmentMemory
from keras_txl.models import StatefulModel
from tests import tolerances
from tests.oracles.memory_banks import assert_same_bank
from tests.oracles.memory_banks import bank_of
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


def memory_model(**compiled):
    """The smallest model with memory: torch.compile takes minutes for more."""
    features = keras.Input((None, 3))
    document_ids = keras.Input((None,), dtype="int32")
    context, length = SegmentMemory(4, batch_size=2)(features, document_ids)
    total = keras.ops.sum(context, axis=1) + keras.ops.cast(
        length[:, None], "float32"
    )
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(total)
    model = StatefulModel([features, document_ids], outputs)
    model.compile(keras.optimizers.SGD(0.001), "mse", **compiled)
    return model


# PyTorch warns of its own modules, and of a cache of Keras that it traces.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method")
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a")
@pytest.mark.backend("torch")  # XLA and jax.jit have tests with all layers
def test_torch_compile_gives_the_losses_of_the_eager_fit():
    import torch

    features = np.random.default_rng(3).normal(size=(12, 3, 3))
    # Row 0 of each batch goes on in document 0, row 1 meets others.
    documents = [[0, 0, 0], [1, 1, 1]] * 3 + [[0, 0, 0], [2, 3, -1]] * 3
    x = [features.astype("float32"), np.array(documents, "int32")]
    y = np.arange(12, dtype="float32")[:, None]

    def train(model):
        each = MeanSoFar()
        model.fit(x, y, epochs=2, callbacks=[each], verbose=0)
        return each.losses, bank_of(model, "train")

    eager, bank = train(memory_model(jit_compile=False))
    assert bank[1].tolist() == [[4, 1]]  # one layer; slots of each row
    torch._dynamo.utils.counters.clear()
    losses, compiled_bank = train(memory_model(jit_compile=True))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert_close(losses, eager, tolerances.FLOAT32, "losses")
    assert_same_bank(compiled_bank, bank, "training bank")
