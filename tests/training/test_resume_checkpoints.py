"""Checkpoints of a run: when they are written, what they hold and refuse."""

import os
import signal

import keras
import numpy as np
import pytest

from keras_txl.models import StatefulModel
from keras_txl.training import ResumeTraining
from keras_txl.training import read_checkpoint
from tests.tolerances import EXACT
from tests.tolerances import assert_close
from tests.training.interrupted_run import EPOCHS
from tests.training.interrupted_run import STEPS_PER_EPOCH
from tests.training.interrupted_run import StopAt
from tests.training.interrupted_run import assert_goes_on
from tests.training.interrupted_run import assert_same_run
from tests.training.interrupted_run import make_stream
from tests.training.interrupted_run import put
from tests.training.interrupted_run import snapshot
from tests.training.interrupted_run import stop
from tests.training.interrupted_run import train


# === When it is written ===
@pytest.mark.parametrize(
    ("number", "step"), [(signal.SIGINT, 5), (signal.SIGTERM, 3)]
)
def test_a_signal_leaves_a_checkpoint_of_the_finished_step(
    lm, expected, tmp_path, number, step
):
    class Terminated(Exception):
        pass

    def terminate(*_):
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    raised = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
    try:
        with pytest.raises(raised[number]):
            train(
                lm,
                tmp_path,
                StopAt(step, lambda _: os.kill(os.getpid(), number)),
            )
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read_checkpoint(tmp_path)[1]["step"] == step
    # Behind the last step of an epoch, its validation comes first.
    assert_goes_on(lm, tmp_path, expected, step)


@pytest.mark.parametrize("error", [None, RuntimeError])
def test_signal_handlers_are_put_back_after_training(lm, tmp_path, error):
    def fail(_):
        raise error("no more")

    before = signal.getsignal(signal.SIGINT)
    if error is None:
        train(lm, tmp_path)
    else:
        with pytest.raises(error, match="no more"):
            train(lm, tmp_path, StopAt(2, fail))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"every_steps": 4}, [4, 8, 12, 15]),
        ({"every_steps": 5, "every_seconds": None}, [5, 10, 15]),
        ({"every_seconds": 1e-9}, list(range(1, 16))),
    ],
)
def test_checkpoints_come_when_they_are_due(
    lm, tmp_path, monkeypatch, options, steps
):
    saved = []

    def save(self):
        saved.append(self.step)
        return original(self)

    original = ResumeTraining.save
    monkeypatch.setattr(ResumeTraining, "save", save)
    train(lm, tmp_path, **options)
    assert saved == steps


# === What it holds ===
def test_a_bfloat16_memory_is_restored_exactly(new_lm, tmp_path):
    lm = new_lm(memory_dtype="bfloat16")
    fit(lm, tmp_path)
    other = new_lm(memory_dtype="bfloat16")
    assert ResumeTraining(tmp_path).restore(other) == 7
    for old, new in zip(lm.variables, other.variables, strict=True):
        assert keras.backend.standardize_dtype(new.dtype) == (
            keras.backend.standardize_dtype(old.dtype)
        )
        assert_close(
            keras.ops.cast(new.value, "float32"),
            keras.ops.cast(old.value, "float32"),
            EXACT,
            old.path,
        )


def test_the_generators_of_python_and_numpy_go_on(lm, compiled, tmp_path):
    class Draws(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.drawn = []

        def on_epoch_begin(self, epoch, logs=None):
            self.drawn.append(float(np.random.normal()))

        def on_train_batch_end(self, batch, logs=None):
            self.drawn.append(float(np.random.normal()))

    def run(folder, *callbacks):
        lm.fit(
            make_stream().repeat(),
            steps_per_epoch=STEPS_PER_EPOCH,
            epochs=EPOCHS,
            callbacks=[*callbacks, ResumeTraining(tmp_path / folder)],
            verbose=0,
        )
        return callbacks[0].drawn

    whole = run("whole", Draws())
    for step in (7, 10):
        put(lm, compiled[1])
        run(str(step), Draws(), StopAt(step, stop))
        np.random.seed(0)
        rest = run(str(step), Draws())
        place = step + 1 + step // STEPS_PER_EPOCH
        if step % STEPS_PER_EPOCH == 0:
            assert rest == whole[place - 1 :]
        else:  # the epoch began once more
            assert rest[1:] == whole[place:]


def test_extra_values_come_back(lm, tmp_path):
    fit(lm, tmp_path, extra={"note": [1, "a"]})
    assert read_checkpoint(tmp_path)[1]["extra"] == {"note": [1, "a"]}


# === What is refused ===
@pytest.fixture(scope="module")
def saved(compiled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    lm, start = compiled
    put(lm, start)
    fit(lm, folder)
    return folder


def fit(lm, folder, x=None, **options):
    lm.fit(
        make_stream() if x is None else x,
        callbacks=[ResumeTraining(folder, **options)],
        verbose=0,
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"segment_length": 3}, r"segment_length=3 \(checkpoint: 4\)"),
        ({"seed": 5}, r"Received: text=\d+ \(checkpoint: \d+\)"),
    ],
)
def test_another_stream_is_refused(lm, saved, arguments, told):
    lm(make_stream()[0][0], training=True)  # memory that could be lost
    before = snapshot(lm)
    with pytest.raises(ValueError, match=told):
        fit(lm, saved, make_stream(**arguments))
    assert_same_run(snapshot(lm), before)


def test_another_model_is_refused_and_left_alone(new_lm, saved):
    other = new_lm(intermediate_dim=20)
    before = snapshot(other)
    with pytest.raises(ValueError, match="Build and compile the model as"):
        fit(other, saved)
    assert_same_run(snapshot(other), before)


def test_another_optimizer_is_refused(new_lm, saved):
    other = new_lm()
    other.compile(optimizer="sgd")
    with pytest.raises(ValueError, match="variables, but"):
        fit(other, saved)
    other.compile(
        keras.optimizers.Lamb()
    )  # its variables look like those of Adam
    with pytest.raises(ValueError, match=r"optimizer='Lamb' \(.*: 'Adam'\)"):
        fit(other, saved)


def test_a_setting_that_no_variable_shows_is_refused(new_lm, saved):
    other = new_lm(normalize_first=True, remat=True)
    with pytest.raises(ValueError, match=r"Received: normalize_first=True \("):
        fit(other, saved)
    assert ResumeTraining(saved).restore(other) > 0


def test_other_metrics_are_refused(lm, new_lm, tmp_path):
    train(lm, tmp_path, StopAt(3, stop))
    other = new_lm()
    other.compile(
        keras.optimizers.Adam(0.01),
        weighted_metrics=["accuracy", "sparse_top_k_categorical_accuracy"],
    )
    with pytest.raises(ValueError, match="The metrics must be those"):
        train(other, tmp_path)


def test_an_uncompiled_model_is_told_so(new_lm, saved):
    lm = new_lm()
    lm.optimizer = None
    with pytest.raises(ValueError, match="Call `lm.compile"):
        ResumeTraining(saved).restore(lm)


def test_a_folder_without_a_checkpoint_is_told_so(lm, tmp_path):
    with pytest.raises(FileNotFoundError, match="Train with"):
        ResumeTraining(tmp_path / "none").restore(lm)


def test_a_plain_model_is_refused(tmp_path):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=StatefulModel.__name__):
        model.fit(
            np.ones((2, 4)),
            np.ones((2, 1)),
            callbacks=[ResumeTraining(tmp_path)],
            verbose=0,
        )


@pytest.mark.backend("tensorflow")
def test_a_memory_on_several_replicas_is_refused(lm, tmp_path, monkeypatch):
    class Strategy:
        num_replicas_in_sync = 2

    monkeypatch.setattr(
        type(lm), "distribute_strategy", Strategy(), raising=False
    )
    with pytest.raises(ValueError, match="a strategy with 2 replicas"):
        ResumeTraining(tmp_path).plan(lm, make_stream(), 1, 0, None)
