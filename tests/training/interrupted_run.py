"""A run with dropout and validation, to be interrupted and gone on with."""

import csv

import keras
import numpy as np

from keras_txl.data import SegmentStream
from keras_txl.training import ResumeTraining
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
