"""Callbacks that evaluate, predict or reset while `fit` runs."""

import keras
import numpy as np
import pytest

from tests import tolerances
from tests.oracles.memory_banks import IDS
from tests.oracles.memory_banks import X
from tests.oracles.memory_banks import Y
from tests.oracles.memory_banks import assert_same_bank
from tests.oracles.memory_banks import bank_of
from tests.oracles.value_losses import segment_losses
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

OTHERS = (IDS[20:28], IDS[28:36])


class Losses(keras.callbacks.Callback):
    """The running mean that Keras reports after every batch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


class Evaluates(keras.callbacks.Callback):
    """Evaluates and predicts after every second batch and at the last."""

    def __init__(self):
        super().__init__()
        self.results = []

    def on_train_batch_end(self, batch, logs=None):
        if batch % 2 == 1:
            found = [self.model.evaluate(*OTHERS, verbose=0) for _ in range(2)]
            self.model.predict(OTHERS[0], verbose=0)
            again = self.model.evaluate(*OTHERS, verbose=0)
            self.results.append([*found, again])


def train(lm, stream, *callbacks, **arguments):
    """Losses of batches and epochs, weights and training bank."""
    randomize(lm, seed=7)
    each = Losses()
    history = lm.fit(
        stream, epochs=2, verbose=0, callbacks=[each, *callbacks], **arguments
    ).history
    weights = [to_numpy(weight) for weight in lm.trainable_weights]
    return each.losses, history, weights, bank_of(lm, "train")


@pytest.mark.parametrize("validation", [False, True])
def test_a_callback_that_evaluates_changes_nothing_of_training(
    lm, stream, validation
):
    arguments = {"validation_data": OTHERS} if validation else {}
    losses, history, weights, bank = train(lm, stream, **arguments)
    evaluates = Evaluates()
    found = train(lm, stream, evaluates, **arguments)
    assert found[0] == losses
    assert found[1] == history
    for value, expected in zip(found[2], weights, strict=True):
        assert_close(value, expected, tolerances.EXACT, "weight")
    assert_same_bank(found[3][:2], bank[:2], "training bank")
    # Each evaluation began with an empty bank, and weights were new.
    assert len(evaluates.results) == 6
    for results in evaluates.results:
        assert results[0] == results[1] == results[2]
    assert len({results[0][0] for results in evaluates.results}) == 6


def test_a_failing_evaluation_in_a_callback_leaves_training_metrics(lm, stream):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            with pytest.raises(Exception):
                self.model.evaluate(OTHERS[0], OTHERS[1][:, :-1], verbose=0)

    losses, history, *_ = train(lm, stream)
    found = train(lm, stream, Fails())
    assert found[0] == losses
    assert found[1] == history


@pytest.mark.parametrize("captured", [False, True])
def test_a_reset_by_a_callback_is_seen_by_the_next_batch(lm, captured):
    class Resets(keras.callbacks.Callback):
        lengths = []

        def on_train_batch_begin(self, batch, logs=None):
            if batch == 2:
                (lm if captured else self.model).reset_memory("train", rows=[1])

        def on_train_batch_end(self, batch, logs=None):
            _, length, _ = bank_of(self.model, "train")
            self.lengths.append(length[0].tolist())

    # One token a batch: slots count batches.
    x, y = IDS.reshape(-1, 1)[:8], IDS.reshape(-1, 1)[8:16]
    resets = Resets()
    resets.lengths = []
    lm.fit(x, y, callbacks=resets, verbose=0)
    assert resets.lengths == [[1, 1], [2, 2], [3, 1], [4, 2]]


# === Batches of other sizes ===
@pytest.fixture
def standing(lm):
    """The model with a learning rate of zero."""
    rate = float(lm.optimizer.learning_rate)
    lm.optimizer.learning_rate = 0.0
    yield lm
    lm.optimizer.learning_rate = rate


def row_losses(lm, x, y, rows):
    """Mean loss of batches of `rows` rows, each row a stream of its own."""
    streams = [
        segment_losses(
            lm, [(x[k : k + 1], y[k : k + 1]) for k in range(r, len(x), rows)]
        )
        for r in range(min(rows, len(x)))
    ]
    return np.mean(np.concatenate([np.concatenate(s) for s in streams]))


def test_a_short_last_batch_of_fit_equals_rows_read_alone(standing):
    loss = standing.fit(X, Y, verbose=0).history["loss"]  # 2, 2, 2, 2, 1 rows
    expected = row_losses(standing, X, Y, rows=2)
    assert_close(loss, [expected], tolerances.FLOAT32, "loss")
    # The absent row kept its memory: row 1 of the batches before.
    memory = standing.initial_memory(1)
    for k in range(1, 9, 2):
        _, memory = standing.step(X[k : k + 1], memory)
    states, length, _ = bank_of(standing, "train")
    assert length[:, 1].tolist() == [6, 6]
    assert_close(
        states[:, 1],
        to_numpy(memory["states"])[0],
        tolerances.FLOAT32,
        "memory of the absent row",
    )


def test_fewer_rows_than_a_batch_are_exact(standing):
    expected = row_losses(standing, X[:1], Y[:1], rows=1)
    for verb in (standing.fit, standing.evaluate):
        found = verb(X[:1], Y[:1], batch_size=2, verbose=0)
        if verb == standing.fit:
            found = found.history["loss"]
        assert_close(found[0], expected, tolerances.FLOAT32, "loss")
    found = standing.evaluate(X[:2], Y[:2], batch_size=3, verbose=0)
    expected = row_losses(standing, X[:2], Y[:2], rows=2)
    assert_close(found[0], expected, tolerances.FLOAT32, "larger batch")


def test_a_batch_size_above_the_memory_is_an_error_even_for_few_rows(lm):
    with pytest.raises(ValueError, match="batches of 32 rows.*batch_size=2"):
        lm.fit(X[:2], Y[:2], batch_size=32, verbose=0)
