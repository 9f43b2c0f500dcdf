"""Error bars over documents."""

import math

import numpy as np
import pytest

from keras_txl.evaluation import StreamEvaluation
from keras_txl.evaluation import bootstrap_difference

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def evaluation(nats, targets=None):
    nats = np.asarray(nats, "float64")
    if targets is None:
        targets = np.full(len(nats), 100)
    targets = np.asarray(targets, "int64")
    return StreamEvaluation(nats, targets, targets, 1.0, int(targets.sum()))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_difference_is_that_of_the_averages(rng):
    targets = rng.integers(1, 300, 40)
    first = evaluation(rng.uniform(50, 200, 40), targets)
    second = evaluation(rng.uniform(50, 200, 40), targets)
    interval = bootstrap_difference(first, second)
    expected = first.bits_per_byte - second.bits_per_byte
    assert interval.estimate == pytest.approx(expected)
    assert interval.low < expected < interval.high
    assert interval.num_documents == 40


def test_the_width_is_that_of_the_normal_interval(rng):
    # Equal sizes: the statistic is a mean, whose error is known.
    noise = rng.normal(0, 5, 400)
    base = rng.uniform(100, 900, 400)
    interval = bootstrap_difference(evaluation(base + noise), evaluation(base))
    error = noise.std() / 100 / math.log(2) / math.sqrt(400)
    assert interval.high - interval.low == pytest.approx(
        2 * 1.96 * error, rel=0.1
    )


def test_pairing_takes_the_spread_between_documents_away(rng):
    base = rng.uniform(100, 900, 50)
    interval = bootstrap_difference(evaluation(base - 1), evaluation(base))
    assert interval.high < 0
    assert interval.excludes_zero
    assert interval.high - interval.low < 1e-9


def test_noise_alone_does_not_exclude_zero(rng):
    base = rng.uniform(100, 900, 30)
    noise = rng.normal(0, 20, 30)
    noise -= noise.mean()
    interval = bootstrap_difference(evaluation(base + noise), evaluation(base))
    assert not interval.excludes_zero


def test_the_seed_decides_the_draws(rng):
    first = evaluation(rng.uniform(0, 9, 20))
    second = evaluation(rng.uniform(0, 9, 20))
    again = bootstrap_difference(first, second, seed=3)
    assert bootstrap_difference(first, second, seed=3) == again
    assert bootstrap_difference(first, second, seed=4) != again


def test_documents_without_a_target_are_left_out(rng):
    targets = [100, 0, 100, 100]
    interval = bootstrap_difference(
        evaluation([5, 0, 6, 7], targets), evaluation([1, 0, 1, 1], targets)
    )
    assert interval.num_documents == 3


def test_other_documents_are_refused():
    with pytest.raises(ValueError, match="of the same documents"):
        bootstrap_difference(evaluation([1, 2]), evaluation([1, 2, 3]))


def test_a_single_document_is_refused():
    with pytest.raises(ValueError, match="Cut the text into smaller"):
        bootstrap_difference(evaluation([1]), evaluation([2]))
