"""RECL of models that use a known number of tokens."""

import math

import numpy as np
import pytest

from keras_txl.analysis import find_effective_context
from keras_txl.analysis import relative_effective_context_length
from keras_txl.analysis import relative_gain
from tests.oracles.told_losses import ToldLosses
from tests.oracles.weights import randomize

pytestmark = pytest.mark.backend("tensorflow")


class UsesTokens(ToldLosses):
    """Each of the last `number` tokens lowers the loss; no other does."""

    def __init__(self, number, gain=0.05):
        super().__init__()
        self.number = number
        self.gain = gain

    def losses(self, inputs, memory):
        seen = 1 + np.arange(inputs["token_ids"].shape[1])
        loss = 3 - self.gain * np.minimum(seen, self.number)
        return np.broadcast_to(loss, inputs["token_ids"].shape)


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(1)
    return [rng.integers(0, 17, size) for size in (30, 5, 22)]


def loop_over_the_definition(short, long, ratio):
    """Appendix C, a token at a time."""
    models, tokens = len(short), len(short[0])
    baseline = [min(short[i][t] for i in range(models)) for t in range(tokens)]
    order = sorted(range(tokens), key=lambda t: -baseline[t])
    top = order[: round(ratio * tokens)]
    gains = []
    for i in range(models):
        before = sum(min(baseline[t], short[i][t]) for t in top) / len(top)
        after = sum(min(baseline[t], long[i][t]) for t in top) / len(top)
        gains.append((math.exp(before) - math.exp(after)) / math.exp(before))
    return gains


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_the_gain_is_that_of_the_definition(ratio):
    rng = np.random.default_rng(0)
    short = rng.uniform(0, 5, (3, 40))
    long = short + rng.normal(-0.2, 0.5, short.shape)
    expected = loop_over_the_definition(short, long, ratio)
    np.testing.assert_allclose(relative_gain(short, long, ratio), expected)


@pytest.mark.parametrize("number", [1, 3, 7])
def test_a_model_that_uses_k_tokens_has_a_length_of_k(documents, number):
    found = relative_effective_context_length(
        [UsesTokens(number)], documents, step=1, longest=12
    )
    assert found.lengths.tolist() == [number]
    for context, gain in found.gains.items():
        paid = 1 - math.exp(-0.05) if context < number else 0.0
        assert gain == pytest.approx([paid], abs=1e-6)


def test_each_model_of_a_group_is_measured_against_the_best(documents):
    # The second gains as much a token, from so far behind that it never
    # comes below what the first has without: nothing counts.
    behind = UsesTokens(9)
    behind.losses = lambda inputs, memory: (
        5 + UsesTokens.losses(behind, inputs, memory)
    )
    found = relative_effective_context_length(
        [UsesTokens(4), behind], documents, step=1, longest=12
    )
    assert found.lengths.tolist() == [4, 1]
    assert np.isnan(found.gains[2][1])  # it was done before
    alone = relative_effective_context_length(
        [behind], documents, step=1, longest=12
    )
    assert alone.lengths.tolist() == [9]


@pytest.mark.parametrize("layers, window, reach", [(1, 3, 3), (2, 3, 5)])
def test_a_window_of_a_real_model_is_its_length(
    make_lm, documents, layers, window, reach
):
    lm = make_lm(num_layers=layers, attention_window=window)
    lm.compile(run_eagerly=True)
    randomize(lm, seed=3, scale=1.0)
    found = relative_effective_context_length(
        [lm], documents, step=1, longest=9, threshold=1e-5
    )
    assert found.lengths.tolist() == [reach]


def test_a_window_told_by_memory_does_not_cut_the_context(make_lm, documents):
    # As in the published models; a context is read without memory.
    lm = make_lm(num_layers=1, eval_attention_window="memory_length+1")
    lm.compile(run_eagerly=True)
    randomize(lm, seed=3, scale=1.0)
    found = relative_effective_context_length(
        [lm], documents, step=1, longest=5, threshold=1e-5
    )
    assert found.lengths.tolist() == [5]


def test_a_context_that_always_pays_is_told_as_the_longest(documents):
    found = relative_effective_context_length(
        [UsesTokens(99)], documents, step=4, longest=11
    )
    assert found.lengths.tolist() == [8] == [found.longest]


def test_the_step_sets_what_a_gain_is_worth(documents):
    # One token is worth less than a hundredth, four are worth more.
    models = [UsesTokens(10, gain=0.004)]
    for step, expected in ((1, 1), (4, 8)):
        found = relative_effective_context_length(
            models, documents, step=step, longest=16
        )
        assert found.lengths.tolist() == [expected]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"step": 0, "longest": 4}, "`step` must be"),
        ({"step": 2, "longest": 3}, "`longest` must be"),
        ({"step": 1, "longest": 4, "ratio": 0.0}, "`ratio` must be in"),
    ],
)
def test_options_out_of_range_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        find_effective_context(lambda length: np.ones((1, 2)), **options)


def test_texts_that_are_too_short_are_refused(documents):
    with pytest.raises(ValueError, match="documents of at most 30 tokens"):
        relative_effective_context_length(
            [UsesTokens(1)], documents, step=1, longest=30
        )
