"""A run that was interrupted goes on as if nothing had happened."""

import csv
import os
import signal

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.models import StatefulModel
from keras_txl.training import ResumeTraining
from keras_txl.training import TimeBudget
from keras_txl.training import read_checkpoint
from keras_txl.training.model_state import training_variables
from tests.tolerances import EXACT
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

STEPS_PER_EPOCH = 5
EPOCHS = 3


def make_stream(seed=0, sizes=(23, 9, 20), segment_length=4):
    rng = np.random.default_rng(seed)
    documents = [rng.integers(0, 17, size) for size in sizes]
    return SegmentStream(documents, batch_size=2, segment_length=segment_length)


@pytest.fixture
def stream():
    """7 segments, so that passes and epochs do not agree."""
    stream = make_stream()
    assert len(stream) == 7
    return stream


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


class Losses(keras.callbacks.Callback):
    """Running losses by epoch and step."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.seen[self.epoch, batch] = float(logs["loss"])


def stop(callback):
    callback.model.stop_training = True


@pytest.fixture(scope="module")
def new_lm(make_lm):
    def make(**overrides):
        # Dropout makes the state of the random generators part of the run.
        lm = make_lm(num_layers=1, dropout=0.3, **overrides)
        lm.compile(optimizer=keras.optimizers.Adam(0.01))
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


def train(lm, folder, *callbacks, **options):
    """The script that is run again and again."""
    logger = keras.callbacks.CSVLogger(folder / "log.csv")
    try:
        return lm.fit(
            make_stream().repeat(),
            steps_per_epoch=STEPS_PER_EPOCH,
            epochs=EPOCHS,
            validation_data=make_stream(1, (12,)),
            callbacks=[
                *callbacks,
                # Each beginning of an epoch lowers the rate a little more.
                keras.callbacks.LearningRateScheduler(lambda _, r: r * 0.8),
                logger,
                ResumeTraining(folder, **options),
            ],
            verbose=0,
        )
    finally:
        if logger.csv_file is not None:
            logger.csv_file.close()


def snapshot(lm):
    return [np.array(to_numpy(v.value)) for v in training_variables(lm)]


def put(lm, values):
    for variable, value in zip(training_variables(lm), values, strict=True):
        variable.assign(value)
    # PyTorch draws dropout from a generator outside of the variables.
    keras.utils.set_random_seed(1)


def forget(lm):
    put(lm, [np.zeros_like(value) for value in snapshot(lm)])


def read_log(folder):
    with open(folder / "log.csv", newline="") as file:
        return list(csv.DictReader(file))


def assert_same_run(actual, expected):
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert_close(a, b, EXACT, f"variable {number}")


@pytest.fixture(scope="module")
def expected(compiled, tmp_path_factory):
    """What the run that nothing interrupts ends with."""
    lm, start = compiled
    put(lm, start)
    folder = tmp_path_factory.mktemp("uninterrupted")
    losses = Losses()
    history = train(lm, folder, losses).history
    assert len(losses.seen) == STEPS_PER_EPOCH * EPOCHS
    assert len(set(losses.seen.values())) == len(losses.seen)
    assert len(set(history["val_loss"])) == EPOCHS
    return {
        "variables": snapshot(lm),
        "losses": losses.seen,
        "history": history,
        "log": read_log(folder),
    }


def assert_same_variables(lm, expected):
    names = [variable.path for variable in training_variables(lm)]
    for name, a, b in zip(names, snapshot(lm), expected, strict=True):
        # Numbers of documents count all passes over the validation stream,
        # those of the part that was interrupted as well.
        if not name.endswith("eval_document"):
            assert_close(a, b, EXACT, name)


def assert_goes_on(lm, folder, expected, step):
    losses = Losses()
    history = train(lm, folder, losses)
    first = divmod(step, STEPS_PER_EPOCH)
    assert losses.seen == {
        place: loss
        for place, loss in expected["losses"].items()
        if place >= first
    }
    assert history.epoch == list(range(EPOCHS))
    assert history.history == expected["history"]
    assert read_log(folder) == expected["log"]
    assert_same_variables(lm, expected["variables"])


# === Going on ===
@pytest.mark.parametrize("step", [1, 5, 8, 14])
def test_a_resumed_run_equals_the_uninterrupted_one(
    lm, expected, tmp_path, step
):
    train(lm, tmp_path, StopAt(step, stop))
    state = read_checkpoint(tmp_path)[1]
    assert (state["step"], state["next_segment"]) == (step, step)
    forget(lm)
    assert_goes_on(lm, tmp_path, expected, step)


def test_a_new_model_goes_on_where_the_old_one_stopped(
    lm, new_lm, expected, tmp_path
):
    train(lm, tmp_path, StopAt(8, stop))
    keras.utils.set_random_seed(2)
    assert_goes_on(new_lm(), tmp_path, expected, 8)


def test_a_run_is_not_the_same_without_its_memory(lm, expected, tmp_path):
    class Forget(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if not self.forgotten:
                self.model.reset_memory("train")
                self.forgotten = True

    train(lm, tmp_path, StopAt(8, stop))
    callback = Forget()
    callback.forgotten = False
    train(lm, tmp_path, callback)
    with pytest.raises(AssertionError, match="differ"):
        assert_same_variables(lm, expected["variables"])


def test_a_complete_run_is_not_repeated(lm, expected, tmp_path):
    train(lm, tmp_path)
    forget(lm)
    assert_goes_on(lm, tmp_path, expected, STEPS_PER_EPOCH * EPOCHS)


def test_more_epochs_train_on(lm, expected, tmp_path):
    def run(epochs):
        return lm.fit(
            make_stream(),
            epochs=epochs,
            callbacks=[ResumeTraining(tmp_path)],
            verbose=0,
        ).history["loss"]

    first = run(1)
    assert run(2)[:1] == first
    assert read_checkpoint(tmp_path)[1]["step"] == 14
    assert run(1) == run(2)  # fewer epochs take nothing back


@pytest.mark.parametrize("passes_before", [0, 1])
def test_a_plain_fit_over_passes_can_be_resumed(
    lm, compiled, stream, tmp_path, passes_before
):
    def run(folder, *callbacks):
        lm.fit(
            stream,
            epochs=2,
            verbose=0,
            callbacks=[*callbacks, ResumeTraining(tmp_path / folder)],
        )
        return snapshot(lm)

    if passes_before:
        lm.fit(stream, epochs=passes_before, verbose=0)
        put(lm, compiled[1])
    whole = run("whole")
    put(lm, compiled[1])
    run("parts", StopAt(10, stop))
    forget(lm)
    assert_same_run(run("parts"), whole)


# PyTorch draws from the generator of dropout for each data loader, and there
# the callback makes one loader of all epochs.
@pytest.mark.backend("tensorflow", "jax")
def test_the_callback_does_not_change_a_run(lm, compiled, stream, tmp_path):
    def run(*callbacks):
        put(lm, compiled[1])
        losses = Losses()
        lm.fit(stream, epochs=2, callbacks=[losses, *callbacks], verbose=0)
        return losses.seen, [to_numpy(v) for v in lm.trainable_variables]

    seen, weights = run()
    same, same_weights = run(ResumeTraining(tmp_path, every_steps=3))
    assert same == seen
    assert_same_run(same_weights, weights)


def test_the_average_of_an_optimizer_waits_for_the_end(make_lm, tmp_path):
    lm = make_lm(num_layers=1)
    lm.compile(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5))
    lm.optimizer.build(lm.trainable_variables)
    start = snapshot(lm)

    def run(folder, *callbacks):
        put(lm, start)
        lm.fit(
            make_stream(),
            epochs=2,
            callbacks=[*callbacks, ResumeTraining(tmp_path / folder)],
            verbose=0,
        )
        return [to_numpy(v) for v in lm.trainable_variables]

    whole = run("whole")
    run("parts", StopAt(3, stop))
    assert_same_run(run("parts"), whole)


@pytest.mark.backend("tensorflow", "jax")  # PyTorch has no such argument
def test_several_steps_in_one_call_are_counted(make_lm, tmp_path):
    lm = make_lm(num_layers=1, dropout=0.3)
    lm.compile(keras.optimizers.Adam(0.01), steps_per_execution=2)
    lm.optimizer.build(lm.trainable_variables)
    start = snapshot(lm)

    def run(folder, *callbacks):
        losses = Losses()
        lm.fit(
            make_stream().repeat(),
            steps_per_epoch=4,
            epochs=2,
            callbacks=[losses, *callbacks, ResumeTraining(tmp_path / folder)],
            verbose=0,
        )
        return losses.seen, snapshot(lm)

    seen, whole = run("whole")
    assert list(seen) == [(0, 1), (0, 3), (1, 1), (1, 3)]
    put(lm, start)
    run("parts", StopAt(3, stop))
    assert read_checkpoint(tmp_path / "parts")[1]["step"] == 6
    forget(lm)
    rest, variables = run("parts")
    assert rest == {(1, 3): seen[1, 3]}
    assert_same_run(variables, whole)


# === Other callbacks ===
def test_early_stopping_and_plateaus_go_on(lm, compiled, tmp_path):
    def run(folder, *callbacks):
        early = keras.callbacks.EarlyStopping(
            "badness", mode="min", patience=3, restore_best_weights=True
        )
        plateau = keras.callbacks.ReduceLROnPlateau(
            "badness", patience=2, factor=0.5, mode="min"
        )

        class Worse(keras.callbacks.Callback):
            """A log that is best in epoch 1."""

            def on_epoch_end(self, epoch, logs=None):
                logs["badness"] = float(abs(epoch - 1))

        history = lm.fit(
            make_stream().repeat(),
            steps_per_epoch=2,
            epochs=9,
            callbacks=[
                Worse(),
                *callbacks,
                early,
                plateau,
                ResumeTraining(tmp_path / folder),
            ],
            verbose=0,
        )
        return early, history, snapshot(lm)

    early, history, whole = run("whole")
    assert history.epoch == [0, 1, 2, 3, 4] and early.stopped_epoch == 4
    assert history.history["learning_rate"][-1] == pytest.approx(0.005)
    put(lm, compiled[1])
    run("parts", StopAt(7, stop))
    for _ in range(2):  # what stopped stays so
        forget(lm)
        early, again, variables = run("parts")
        assert again.history == history.history
        assert early.best_epoch == 1
        weights = len(lm.trainable_variables)
        assert len(variables[:weights]) == weights
        assert_same_run(variables, whole)


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


# === A budget of time ===
def test_the_time_budget_stops_after_the_step_under_way(lm, expected, tmp_path):
    losses = Losses()
    budget = TimeBudget(1e-6)
    train(lm, tmp_path, losses, budget)
    assert list(losses.seen) == [(0, 0)]
    assert budget.spent
    assert_goes_on(lm, tmp_path, expected, 1)


def test_a_budget_must_be_above_zero():
    with pytest.raises(ValueError, match="`seconds` must be a number above 0"):
        TimeBudget(0)
