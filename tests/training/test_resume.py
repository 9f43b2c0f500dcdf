"""A run that was interrupted goes on as if nothing had happened."""

import os
import signal

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.training import TimeBudget
from keras_txl.training import TrainingCheckpoint
from keras_txl.training import TrainingPosition
from keras_txl.training import continue_fit
from keras_txl.training import restore_training
from keras_txl.training.checkpoint import training_variables
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

STEPS_PER_EPOCH = 5
EPOCHS = 3


def make_stream():
    """A stream of 7 segments, so that passes and epochs do not agree."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 17, size) for size in (23, 9, 20)]
    stream = SegmentStream(documents, batch_size=2, segment_length=4)
    assert len(stream) == 7
    return stream


@pytest.fixture
def stream():
    return make_stream()


class StopAt(keras.callbacks.Callback):
    """Runs an action at the end of a step, counted over epochs."""

    def __init__(self, step, action):
        super().__init__()
        self.left = step
        self.action = action

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            self.action(self)


def stop(callback):
    callback.model.stop_training = True


@pytest.fixture(scope="module")
def new_lm(make_lm):
    def make(**overrides):
        # Dropout makes the state of the random generator part of the run.
        lm = make_lm(dropout=0.3, **overrides)
        # Adam would turn rounding errors of tiny gradients into whole steps.
        lm.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
        lm.optimizer.build(lm.trainable_variables)
        return lm

    return make


@pytest.fixture(scope="module")
def compiled(new_lm):
    """One model for many tests, as compiling is what takes the time."""
    lm = new_lm()
    return lm, snapshot(lm)


@pytest.fixture
def lm(compiled):
    lm, start = compiled
    put(lm, start)
    return lm


def train(lm, position, *callbacks):
    continue_fit(
        lm,
        position,
        steps_per_epoch=STEPS_PER_EPOCH,
        epochs=EPOCHS,
        callbacks=list(callbacks),
        verbose=0,
    )


def snapshot(lm):
    return [np.array(to_numpy(v.value)) for v in training_variables(lm)]


def put(lm, values):
    for variable, value in zip(training_variables(lm), values, strict=True):
        variable.assign(value)
    # PyTorch draws dropout from a generator outside of the variables.
    keras.utils.set_random_seed(1)


def assert_same_run(actual, expected):
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert_close(a, b, FLOAT32, f"variable {number}")


@pytest.fixture(scope="module")
def expected(compiled):
    """What the run that nothing interrupts ends with."""
    lm, start = compiled
    put(lm, start)
    train(lm, TrainingPosition(make_stream().repeat()))
    return snapshot(lm)


def train_and_stop(lm, stream, step, folder):
    train(
        lm,
        TrainingPosition(stream.repeat()),
        StopAt(step, stop),
        TrainingCheckpoint(folder, stream),
    )


# PyTorch draws dropout from a global generator that building a model and
# its data loader advance: there a resumed run is close, not equal.
@pytest.mark.backend("tensorflow", "jax")
@pytest.mark.parametrize("step", [1, 5, 8, 14])
def test_a_resumed_run_equals_the_uninterrupted_one(
    lm, compiled, expected, stream, tmp_path, step
):
    train_and_stop(lm, stream, step, tmp_path)
    put(lm, [np.zeros_like(value) for value in compiled[1]])
    position = restore_training(lm, stream, tmp_path)
    assert position.step == step
    assert (position.pass_number, position.segment_index) == divmod(step, 7)
    train(lm, position)
    assert_same_run(snapshot(lm), expected)


# PyTorch draws dropout from a global generator that building a model and
# its data loader advance: there a resumed run is close, not equal.
@pytest.mark.backend("tensorflow", "jax")
def test_a_new_model_goes_on_where_the_old_one_stopped(
    lm, new_lm, expected, stream, tmp_path
):
    train_and_stop(lm, stream, 8, tmp_path)
    new = new_lm()
    train(new, restore_training(new, stream, tmp_path))
    assert_same_run(snapshot(new), expected)


def test_a_run_is_not_the_same_without_its_memory(
    lm, expected, stream, tmp_path
):
    train_and_stop(lm, stream, 8, tmp_path)
    position = restore_training(lm, stream, tmp_path)
    lm.reset_memory("train")
    train(lm, position)
    with pytest.raises(AssertionError, match="differ"):
        assert_same_run(snapshot(lm), expected)


# PyTorch draws dropout from a global generator that building a model and
# its data loader advance: there a resumed run is close, not equal.
@pytest.mark.backend("tensorflow", "jax")
@pytest.mark.parametrize("passes_before", [0, 1])
def test_a_plain_fit_over_passes_can_be_resumed(
    lm, compiled, stream, tmp_path, passes_before
):
    if passes_before:  # the stream numbers its documents on from there
        lm.fit(stream, epochs=passes_before, verbose=0)
        put(lm, compiled[1])
    lm.fit(stream, epochs=2, verbose=0)
    whole = [to_numpy(v.value) for v in lm.trainable_variables]
    put(lm, compiled[1])
    lm.fit(
        stream,
        epochs=2,
        verbose=0,
        callbacks=[StopAt(10, stop), TrainingCheckpoint(tmp_path, stream)],
    )
    position = restore_training(lm, stream, tmp_path)
    continue_fit(lm, position, steps_per_epoch=7, epochs=2, verbose=0)
    assert_same_run([to_numpy(v.value) for v in lm.trainable_variables], whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint_of_the_finished_step(
    lm, stream, tmp_path, number
):
    class Terminated(Exception):
        pass

    def terminate(*_):
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    expected = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
    try:
        with pytest.raises(expected[number]):
            train(
                lm,
                TrainingPosition(stream.repeat()),
                StopAt(3, lambda _: os.kill(os.getpid(), number)),
                TrainingCheckpoint(tmp_path, stream),
            )
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGTERM, before)
    assert restore_training(lm, stream, tmp_path).step == 3


def test_signal_handlers_are_put_back_after_training(lm, stream, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    train(
        lm,
        TrainingPosition(stream.repeat()),
        TrainingCheckpoint(tmp_path, stream),
    )
    assert signal.getsignal(signal.SIGINT) is before


def test_checkpoints_come_every_so_many_steps(lm, stream, tmp_path):
    saved = []

    class Recording(TrainingCheckpoint):
        def save(self):
            saved.append(self.step)
            return super().save()

    train(
        lm,
        TrainingPosition(stream.repeat()),
        Recording(tmp_path, stream, every_steps=6),
    )
    # The end of each `fit` counts as well; here that is the last step.
    assert saved == [6, 12, 15]


def test_checkpoints_come_every_so_many_seconds(lm, stream, tmp_path):
    saved = []

    class Recording(TrainingCheckpoint):
        def save(self):
            saved.append(self.step)
            return super().save()

    train(
        lm,
        TrainingPosition(stream.repeat()),
        Recording(tmp_path, stream, every_seconds=1e-9),
    )
    assert saved == [*range(1, 16), 15]


def test_a_bfloat16_memory_is_restored_exactly(new_lm, stream, tmp_path):
    lm = new_lm(memory_dtype="bfloat16")
    train(
        lm,
        TrainingPosition(stream.repeat()),
        TrainingCheckpoint(tmp_path, stream),
    )
    other = new_lm(memory_dtype="bfloat16")
    restore_training(other, stream, tmp_path)
    for old, new in zip(lm.variables, other.variables, strict=True):
        assert keras.backend.standardize_dtype(new.dtype) == (
            keras.backend.standardize_dtype(old.dtype)
        )
        assert_close(
            keras.ops.cast(new.value, "float32"),
            keras.ops.cast(old.value, "float32"),
            0.0,
            old.path,
        )


def test_extra_values_come_back(lm, stream, tmp_path):
    train(
        lm,
        TrainingPosition(stream.repeat()),
        TrainingCheckpoint(tmp_path, stream, extra={"note": [1, "a"]}),
    )
    position = restore_training(lm, stream, tmp_path)
    assert position.extra == {"note": [1, "a"]}


@pytest.fixture
def saved(lm, stream, tmp_path):
    train(
        lm,
        TrainingPosition(stream.repeat()),
        TrainingCheckpoint(tmp_path, stream),
    )
    return tmp_path


def test_another_stream_is_refused(lm, stream, saved):
    other = SegmentStream(np.arange(17), batch_size=2, segment_length=3)
    with pytest.raises(ValueError, match=r"segment_length=3 \(checkpoint: 4\)"):
        restore_training(lm, other, saved)


def test_another_model_is_refused_and_left_alone(new_lm, stream, saved):
    other = new_lm(intermediate_dim=20)
    before = snapshot(other)
    with pytest.raises(ValueError, match="Build and compile the model as"):
        restore_training(other, stream, saved)
    assert_same_run(snapshot(other), before)


def test_another_optimizer_is_refused(new_lm, stream, saved):
    other = new_lm()
    other.compile(optimizer="sgd")
    with pytest.raises(ValueError, match="variables, but"):
        restore_training(other, stream, saved)


def test_an_uncompiled_model_is_told_so(new_lm, stream, saved):
    lm = new_lm()
    lm.optimizer = None
    with pytest.raises(ValueError, match="Call `lm.compile"):
        restore_training(lm, stream, saved)


def test_a_folder_without_a_checkpoint_is_told_so(lm, stream, tmp_path):
    with pytest.raises(FileNotFoundError, match="Train with"):
        restore_training(lm, stream, tmp_path / "none")


def test_the_time_budget_stops_after_the_step_under_way(lm, stream):
    steps = []
    budget = TimeBudget(1e-6)
    train(
        lm,
        TrainingPosition(stream.repeat()),
        keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: steps.append(batch)
        ),
        budget,
    )
    assert steps == [0]
    assert budget.spent


def test_a_budget_must_be_above_zero():
    with pytest.raises(ValueError, match="`seconds` must be a number above 0"):
        TimeBudget(0)
