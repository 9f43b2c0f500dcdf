"""A run that was interrupted goes on as if nothing had happened."""

import keras
import pytest

from keras_txl.training import ResumeTraining
from keras_txl.training import TimeBudget
from keras_txl.training import read_checkpoint
from tests.tolerances import to_numpy
from tests.training.interrupted_run import EPOCHS
from tests.training.interrupted_run import STEPS_PER_EPOCH
from tests.training.interrupted_run import Losses
from tests.training.interrupted_run import StopAt
from tests.training.interrupted_run import assert_goes_on
from tests.training.interrupted_run import assert_same_run
from tests.training.interrupted_run import assert_same_variables
from tests.training.interrupted_run import forget
from tests.training.interrupted_run import make_stream
from tests.training.interrupted_run import put
from tests.training.interrupted_run import snapshot
from tests.training.interrupted_run import stop
from tests.training.interrupted_run import train


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
