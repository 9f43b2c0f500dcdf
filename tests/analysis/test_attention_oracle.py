"""What heads look at, and the four terms, against loops over pairs."""

import math

import numpy as np
import pytest

from keras_txl.analysis import attention_by_distance
from keras_txl.analysis import attention_entropy
from keras_txl.analysis import attention_terms
from keras_txl.analysis import relative_keys
from keras_txl.analysis import trace_memory
from tests.oracles.attention_oracle import distance_encoding
from tests.oracles.attention_oracle import score_terms
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import empty_memory
from tests.oracles.model_oracle import run_model
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

pytestmark = pytest.mark.backend("tensorflow")

LAYERS, HEADS, WIDTH, SEGMENT, MEMORY = 2, 2, 8, 4, 3
SETTINGS = {"segment_length": SEGMENT, "memory_length": MEMORY}


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(share_attention_biases=False)
    lm.compile(run_eagerly=True)
    randomize(lm, seed=7, scale=0.7)
    return lm


@pytest.fixture(scope="module")
def ids():
    return np.random.default_rng(4).integers(0, 17, 2 * SEGMENT + 1)


@pytest.fixture(scope="module")
def layers(lm, ids):
    """For each segment and layer: inputs with memory, and the four terms."""
    weights = oracle_weights(lm)
    memory = empty_memory(1, LAYERS, MEMORY, WIDTH)
    found = []
    for part in (ids[:SEGMENT], ids[SEGMENT : 2 * SEGMENT]):
        kept = int(memory["length"][0])
        result = run_model(
            OracleConfig(num_layers=LAYERS), weights, part[None], None, memory
        )
        for layer in range(LAYERS):
            slots = memory["states"][0, layer, MEMORY - kept :]
            context = np.concatenate([slots, result.layer_inputs[0, layer]])
            found.append(terms_of(weights, layer, context))
        memory = result.memory
    return found, memory


def terms_of(weights, layer, context):
    w = {
        name: weights[f"layer_{layer}.{name}"]
        for name in ("query", "key", "relative_key")
    }
    rows = distance_encoding(range(len(context)), WIDTH)
    query, key, relative_key = (
        np.einsum("sd,dnh->snh", values, w[name])
        for name, values in (
            ("query", context[-SEGMENT:]),
            ("key", context),
            ("relative_key", rows),
        )
    )
    return score_terms(
        query,
        key,
        relative_key,
        weights[f"layer_{layer}.content_bias"],
        weights[f"layer_{layer}.position_bias"],
    )


def softmax_weights(terms):
    """Attention of each query over the keys it sees, as lists."""
    scores = sum(terms.values()) / math.sqrt(WIDTH // HEADS)
    for head in range(HEADS):
        for i in range(SEGMENT):
            seen = scores[head, i][~np.isnan(scores[head, i])]
            powers = np.exp(seen - seen.max())
            yield head, powers / powers.sum()


def test_attention_by_distance_is_the_mean_over_tokens(lm, ids, layers):
    expected = np.zeros((LAYERS, HEADS, MEMORY + SEGMENT))
    for number, terms in enumerate(layers[0]):
        for head, weights in softmax_weights(terms):
            for distance, weight in enumerate(reversed(weights)):
                expected[number % LAYERS, head, distance] += weight
    expected /= 2 * SEGMENT
    found = attention_by_distance(lm, ids, **SETTINGS)
    assert_close(found, expected, FLOAT32, "attention by distance")
    assert_close(found.sum(axis=-1), np.ones((2, 2)), FLOAT32, "sum")


def test_padding_has_no_part_in_what_is_measured(lm, ids):
    # Two documents side by side, one of which ends earlier.
    both = attention_by_distance(lm, [ids, ids[:3]], batch_size=1, **SETTINGS)
    first = attention_by_distance(lm, ids, **SETTINGS)
    second = attention_by_distance(lm, ids[:3], **SETTINGS)
    expected = (8 * first + 2 * second) / 10
    assert_close(both, expected, FLOAT32, "attention by distance")


def test_entropy_is_the_mean_over_tokens(lm, ids, layers):
    expected = np.zeros((LAYERS, HEADS))
    for number, terms in enumerate(layers[0]):
        for head, weights in softmax_weights(terms):
            expected[number % LAYERS, head] -= np.sum(weights * np.log(weights))
    expected /= 2 * SEGMENT
    found = attention_entropy(lm, ids, **SETTINGS)
    assert_close(found, expected, FLOAT32, "entropy")


def test_the_four_terms_are_those_of_the_loop(lm, ids, layers):
    first = attention_terms(lm, ids[None, :SEGMENT])
    memory = lm.initial_memory(1, memory_length=MEMORY)
    _, memory = lm.step(ids[None, :SEGMENT].astype("int32"), memory)
    second = attention_terms(lm, ids[None, SEGMENT : 2 * SEGMENT], memory)
    for number, terms in enumerate(layers[0]):
        found = first if number < LAYERS else second
        for name in "abcd":
            expected = terms[name] / math.sqrt(WIDTH // HEADS)
            actual = found[name][number % LAYERS, 0]
            seen = ~np.isnan(expected)
            assert (np.isnan(actual) == ~seen).all()
            assert_close(actual[seen], expected[seen], FLOAT32, name)


def test_terms_of_pre_norm_add_up_to_the_scores(make_lm, ids):
    lm = make_lm(normalize_first=True)
    lm.compile(run_eagerly=True)
    randomize(lm, seed=7, scale=0.5)
    terms = attention_terms(lm, ids[None, :SEGMENT])
    scores = sum(terms.values())  # (L, 1, N, T, T)
    powers = np.exp(np.where(np.isnan(scores), -np.inf, scores))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    expected = np.zeros((LAYERS, HEADS, SEGMENT))
    for i in range(SEGMENT):
        for j in range(i + 1):
            expected[:, :, i - j] += weights[:, 0, :, i, j] / SEGMENT
    found = attention_by_distance(
        lm, ids[: SEGMENT + 1], segment_length=SEGMENT, memory_length=0
    )
    assert_close(found, expected, FLOAT32, "attention by distance")


def test_other_positions_have_no_four_terms(make_lm):
    lm = make_lm(position="none")
    for call in (
        lambda: attention_terms(lm, np.zeros((1, 3), "int32")),
        lambda: relative_keys(lm, 3),
    ):
        with pytest.raises(ValueError, match="Use `attention_by_distance`"):
            call()


def test_relative_keys_are_rows_of_distances(lm):
    found = relative_keys(lm, 5)
    weights = oracle_weights(lm)
    rows = distance_encoding(range(5), WIDTH)
    for layer in range(LAYERS):
        kernel = weights[f"layer_{layer}.relative_key"]
        assert_close(found.kernels[layer], kernel, FLOAT32, "W_kR")
        expected = np.einsum("rd,dnh->rnh", rows, kernel)
        assert_close(found.keys[layer], expected, FLOAT32, "W_kR R")


def test_strengths_are_those_of_each_sine_and_its_cosine(lm):
    found = relative_keys(lm, 1)
    for number, wavelength in enumerate(found.wavelengths):
        # R turns once around within a wavelength.
        frequency = 10000 ** (-2 * number / WIDTH)
        assert wavelength == pytest.approx(2 * math.pi / frequency)
        for layer in range(LAYERS):
            for head in range(HEADS):
                kernel = found.kernels[layer, :, head]
                entries = [*kernel[number], *kernel[WIDTH // 2 + number]]
                expected = math.sqrt(sum(x**2 for x in entries) / len(entries))
                assert found.strengths[layer, head, number] == pytest.approx(
                    expected
                )


def test_the_trace_is_of_the_states_that_memory_holds(lm, ids, layers):
    trace = trace_memory(lm, ids, **SETTINGS)
    memory = lm.initial_memory(1, memory_length=MEMORY)
    means = []
    for call in range(2):
        part = ids[None, call * SEGMENT : (call + 1) * SEGMENT]
        _, memory = lm.step(part.astype("int32"), memory)
        states = to_numpy(memory["states"])[0].astype("float64")
        for layer in range(LAYERS):
            norms = [np.sqrt((state**2).sum()) for state in states[layer]]
            assert trace.norms[call, layer] == pytest.approx(np.mean(norms))
        means.append(states.mean(axis=1))
    assert_close(
        to_numpy(memory["states"]), layers[1]["states"], 1e-4, "memory"
    )
    for layer in range(LAYERS):
        a, b = means[0][layer], means[1][layer]
        cosine = a @ b / math.sqrt(a @ a * (b @ b))
        assert trace.drift[1, layer] == pytest.approx(1 - cosine, abs=1e-6)
    assert np.abs(trace.drift[0]).max() < 1e-9


def test_slots_that_hold_nothing_have_no_part_in_the_trace(lm, ids):
    short = trace_memory(lm, ids, segment_length=SEGMENT, memory_length=4)
    wide = trace_memory(lm, ids, segment_length=SEGMENT, memory_length=30)
    np.testing.assert_allclose(wide.norms[0], short.norms[0], rtol=1e-5)


def test_a_trace_without_memory_is_refused(lm, ids):
    with pytest.raises(ValueError, match="Pass memory_length=1 or more"):
        trace_memory(lm, ids, segment_length=SEGMENT, memory_length=0)
