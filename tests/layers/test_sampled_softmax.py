"""Candidates, their chances, and losses from them."""

import keras
import numpy as np
from keras import ops

from keras_txl.layers.sampled_softmax import log_uniform_candidates
from keras_txl.layers.sampled_softmax import log_uniform_log_probs
from keras_txl.layers.sampled_softmax import sampled_token_losses
from tests import tolerances
from tests.oracles.gradients import compiled
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

VOCABULARY, TOKENS, WIDTH = 30, 5, 4


def draw(seed=0):
    rng = np.random.default_rng(seed)
    arrays = [
        rng.normal(size=shape).astype("float32")
        for shape in ((TOKENS, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,))
    ]
    return *arrays, rng.integers(0, VOCABULARY, TOKENS).astype("int32")


def sampled(num_sampled, seed, arrays):
    hidden, table, bias, targets = arrays
    candidates, log_chances = log_uniform_candidates(
        num_sampled, VOCABULARY, seed
    )
    return sampled_token_losses(
        hidden,
        None,
        ops.convert_to_tensor(table),
        ops.convert_to_tensor(bias),
        ops.convert_to_tensor(targets),
        candidates,
        log_chances,
    )


def test_log_uniform_chances_sum_to_one_and_fall():
    chances = np.exp(log_uniform_log_probs(1000).astype("float64"))
    assert_close(chances.sum(), 1.0, tolerances.FLOAT32, "sum")
    assert (np.diff(chances) < 0).all()
    assert_close(chances[0], np.log(2) / np.log(1001), 1e-6, "first token")


def test_candidates_are_distinct_and_follow_their_chances():
    seed = keras.random.SeedGenerator(3)
    counts, expected = np.zeros(VOCABULARY), np.zeros(VOCABULARY)
    draws = 400
    for _ in range(draws):
        candidates, log_chances = log_uniform_candidates(8, VOCABULARY, seed)
        candidates = to_numpy(candidates)
        assert len(set(candidates.tolist())) == 8
        counts[candidates] += 1
        expected += np.exp(to_numpy(log_chances))
    # 400 draws of a chance of 1/2 are off by 0.025 once in three times.
    assert_close(counts / draws, expected / draws, 0.1, "frequencies")
    assert counts[0] > 2 * counts[-1]


def test_sums_over_candidates_are_right_in_the_mean():
    values = np.random.default_rng(0).uniform(size=VOCABULARY)
    seed = keras.random.SeedGenerator(5)
    estimates = []
    for _ in range(400):
        candidates, log_chances = log_uniform_candidates(10, VOCABULARY, seed)
        rows = to_numpy(candidates)
        estimates.append(
            (values[rows] / np.exp(to_numpy(log_chances)[rows])).sum()
        )
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - values.sum()) < 4 * error


def test_all_tokens_as_candidates_give_the_exact_loss():
    hidden, table, bias, targets = arrays = draw()
    logits = hidden.astype("float64") @ table.T + bias
    exact = np.log(np.exp(logits).sum(axis=-1))
    exact -= logits[np.arange(TOKENS), targets]
    assert_close(
        sampled(VOCABULARY, 1, arrays), exact, tolerances.FLOAT32, "losses"
    )
    errors = []
    for num_sampled in (3, 28):
        losses = [sampled(num_sampled, seed, arrays) for seed in range(20)]
        losses = np.array([to_numpy(each) for each in losses])
        errors.append(np.abs(losses - exact).mean())
    assert errors[1] < errors[0] / 2


def test_a_target_among_the_candidates_counts_once():
    hidden, table, bias, targets = draw()
    targets[:] = 7
    log_chances = np.full(VOCABULARY, -1.0, "float32")
    candidates = np.array([7, 2], "int32")
    losses = sampled_token_losses(
        hidden,
        None,
        ops.convert_to_tensor(table),
        ops.convert_to_tensor(bias),
        targets,
        candidates,
        log_chances,
    )
    logits = (hidden.astype("float64") @ table.T + bias)[:, [7, 2]]
    exact = np.log(np.exp(logits).sum(axis=-1)) - logits[:, 0]
    assert_close(losses, exact, tolerances.FLOAT32, "losses")


def test_a_seed_generator_draws_anew_and_an_int_does_not():
    def run(seed):
        return to_numpy(log_uniform_candidates(8, VOCABULARY, seed)[0]).tolist()

    seed = keras.random.SeedGenerator(1)
    assert run(seed) != run(seed)
    assert run(7) == run(7)
    drawn = compiled(lambda: log_uniform_candidates(8, VOCABULARY, 7)[0])()
    assert to_numpy(drawn).tolist() == run(7)
