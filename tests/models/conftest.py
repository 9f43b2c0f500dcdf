"""One compiled model for the tests of a session, and its data."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from tests.oracles.weights import randomize


@pytest.fixture(scope="session")
def compiled_lm(make_lm):
    """Plain gradient descent; compiled functions live as long as it does."""
    lm = make_lm()
    lm.compile(optimizer=keras.optimizers.SGD(0.1))
    return lm


@pytest.fixture
def lm(compiled_lm):
    """The compiled model with random weights and without memory.

    A test must not compile it anew: the others would pay for that.
    """
    randomize(compiled_lm, seed=7)
    compiled_lm.reset_memory()
    compiled_lm.reset_metrics()
    return compiled_lm


@pytest.fixture
def stream():
    """Three documents in six segments; both rows end in padding."""
    ids = np.random.default_rng(11).integers(0, 17, size=44)
    stream = SegmentStream([ids[:9], ids[9:31], ids[31:]], 2, 4)
    assert len(stream) == 6
    assert not any(list(stream)[-1][2][:, -1])
    return stream
