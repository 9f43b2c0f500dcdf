"""What must hold of every adaptive softmax."""

import functools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.layers import AdaptiveEmbedding
from keras_txl.layers import AdaptiveSoftmax
from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

SHAPES = st.sampled_from([((3,), 1), ((2, 4, 7), 1), ((2, 4, 7), 2)])
SEEDS = st.integers(0, 2**16)
VOCABULARY, HIDDEN = 12, 4


@functools.lru_cache(maxsize=None)
def softmax_of(shape):
    cutoffs, div_val = shape
    embedding = AdaptiveEmbedding(VOCABULARY, 8, HIDDEN, cutoffs, div_val)
    softmax = AdaptiveSoftmax(embedding, chunk=4)
    softmax.build((None, None, HIDDEN))
    randomize(softmax, seed=2)
    return compiled(softmax.log_probs), compiled(softmax.token_losses)


def draw(seed):
    rng = np.random.default_rng(seed)
    hidden = 3 * rng.normal(size=(2, 5, HIDDEN)).astype("float32")
    return hidden, rng.integers(0, VOCABULARY, (2, 5)).astype("int32")


@given(shape=SHAPES, seed=SEEDS)
def test_probabilities_sum_to_one(shape, seed):
    log_probs, _ = softmax_of(shape)
    hidden, _ = draw(seed)
    total = np.exp(to_numpy(log_probs(hidden)).astype("float64")).sum(axis=-1)
    assert_close(total, np.ones((2, 5)), tolerances.FLOAT32, "sums")


@given(shape=SHAPES, seed=SEEDS)
def test_losses_are_read_off_the_log_probabilities(shape, seed):
    log_probs, token_losses = softmax_of(shape)
    hidden, targets = draw(seed)
    chosen = np.take_along_axis(
        to_numpy(log_probs(hidden)), targets[..., None], axis=-1
    )
    assert_close(
        token_losses(hidden, targets),
        -chosen[..., 0],
        tolerances.FLOAT32,
        "losses",
    )


@given(shape=SHAPES, seed=SEEDS)
def test_tokens_in_another_order_have_losses_in_that_order(shape, seed):
    _, token_losses = softmax_of(shape)
    hidden, targets = draw(seed)
    order = np.random.default_rng(seed).permutation(5)
    assert_close(
        token_losses(hidden[:, order], targets[:, order]),
        to_numpy(token_losses(hidden, targets))[:, order],
        tolerances.FLOAT32,
        "losses",
    )
