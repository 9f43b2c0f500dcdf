"""A model with dropout for many tests, and the run that nothing interrupts."""

import keras
import pytest

from tests.training.interrupted_run import EPOCHS
from tests.training.interrupted_run import STEPS_PER_EPOCH
from tests.training.interrupted_run import Losses
from tests.training.interrupted_run import make_stream
from tests.training.interrupted_run import put
from tests.training.interrupted_run import read_log
from tests.training.interrupted_run import snapshot
from tests.training.interrupted_run import train


@pytest.fixture
def stream():
    """7 segments, so that passes and epochs do not agree."""
    stream = make_stream()
    assert len(stream) == 7
    return stream


@pytest.fixture(scope="session")
def new_lm(make_lm):
    def make(**overrides):
        # Dropout makes the state of the random generators part of the run.
        lm = make_lm(num_layers=1, dropout=0.3, **overrides)
        lm.compile(optimizer=keras.optimizers.Adam(0.01))
        lm.optimizer.build(lm.trainable_variables)
        return lm

    return make


@pytest.fixture(scope="session")
def compiled(new_lm):
    """One model for many tests, as compiling is what takes the time."""
    lm = new_lm()
    return lm, snapshot(lm)


@pytest.fixture
def lm(compiled):
    lm, start = compiled
    put(lm, start)
    return lm


@pytest.fixture(scope="session")
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
