"""Protocols against a slow loop that scores each token on its own.

The loop knows no segment: it keeps what every layer received for every token,
and feeds the oracle one token with the history it may have.
"""

import numpy as np
import pytest

from keras_txl.evaluation import evaluate_stream
from keras_txl.evaluation import token_losses
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import run_model
from tests.oracles.model_oracle import token_losses as oracle_losses
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close

pytestmark = pytest.mark.backend("tensorflow")

LAYERS, WIDTH = 2, 6


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(
        num_layers=LAYERS, hidden_dim=WIDTH, vocabulary_size=9, memory_length=5
    )
    lm.compile(run_eagerly=True)  # many shapes, each used a few times
    randomize(lm, seed=5, scale=0.8)
    return lm


@pytest.fixture(scope="module")
def weights(lm):
    return oracle_weights(lm)


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(3)
    return [rng.integers(0, 9, size) for size in (19, 1, 8)]


def pairs_of(documents):
    return [
        (document[i], document[i + 1], number)
        for number, document in enumerate(documents)
        for i in range(len(document) - 1)
    ]


def read(weights, pairs, places, segment_length, memory_length, clamp, window):
    """Losses of consecutive pairs, one token at a time."""
    config = OracleConfig(
        num_layers=LAYERS, clamp_length=clamp, attention_window=window
    )
    received, losses = {}, {}
    for place in places:
        token, target, document = pairs[place]
        done = (place - places[0]) % segment_length
        earliest = max(places[0], place - done - memory_length)
        history = [
            received[j]
            for j in range(earliest, place)
            if pairs[j][2] == document
        ]
        states = np.zeros((1, LAYERS, len(history), WIDTH))
        for slot, state in enumerate(history):
            states[0, :, slot] = state
        memory = {
            "states": states,
            "length": np.array([len(history)]),
            "document": np.array([0]),
        }
        found = run_model(config, weights, np.array([[token]]), None, memory)
        received[place] = found.layer_inputs[0, :, 0]
        nats = oracle_losses(found.logits, np.array([[target]]))
        losses[place] = nats[0, 0]
    return losses


def stream_losses(weights, pairs, batch_size, warmup, *settings):
    losses = {}
    for row in range(batch_size):
        first = row * len(pairs) // batch_size
        end = (row + 1) * len(pairs) // batch_size
        begin = first
        while (
            begin > max(0, first - warmup)
            and pairs[begin - 1][2] == pairs[first][2]
        ):
            begin -= 1
        found = read(weights, pairs, range(begin, end), *settings)
        losses.update((place, found[place]) for place in range(first, end))
    return losses


def window_losses(weights, pairs, length, stride, clamp, window):
    losses = {}
    for number in sorted({pair[2] for pair in pairs}):
        own = [i for i, pair in enumerate(pairs) if pair[2] == number]
        for begin in range(own[0], own[-1] + 1, stride):
            end = min(begin + length, own[-1] + 1)
            found = read(
                weights, pairs, range(begin, end), length, 0, clamp, window
            )
            for place, nats in found.items():
                losses.setdefault(place, nats)  # counted once
    return losses


@pytest.mark.parametrize(
    "segment, memory, clamp, window, batch, warmup",
    [
        (4, 6, None, None, 1, 0),
        (5, 3, 2, None, 1, 0),
        (1, 4, 3, 3, 2, 0),
        (4, 6, None, 6, 1, 0),
        (6, 9, 4, 10, 3, 0),
        (4, 6, 5, 7, 3, 7),
        (7, 0, None, 2, 2, 3),
        (4, 1, None, None, 5, 7),  # a warm-up that ends at a document
    ],
)
def test_streams_equal_tokens_scored_one_by_one(
    lm, weights, documents, segment, memory, clamp, window, batch, warmup
):
    pairs = pairs_of(documents)
    expected = stream_losses(
        weights, pairs, batch, warmup, segment, memory, clamp, window
    )
    check(
        lm,
        documents,
        expected,
        segment_length=segment,
        batch_size=batch,
        memory_length=memory,
        clamp_length=clamp,
        attention_window=window,
        warmup_tokens=warmup,
    )


@pytest.mark.parametrize(
    "length, stride, clamp, window",
    [(6, 2, None, None), (4, 1, 2, 3), (30, 5, None, None), (5, 5, 3, None)],
)
def test_windows_equal_tokens_scored_one_by_one(
    lm, weights, documents, length, stride, clamp, window
):
    pairs = pairs_of(documents)
    expected = window_losses(weights, pairs, length, stride, clamp, window)
    check(
        lm,
        documents,
        expected,
        segment_length=length,
        batch_size=3,
        stride=stride,
        clamp_length=clamp,
        attention_window=window,
    )


def check(lm, documents, expected, **protocol):
    losses = np.array([expected[place] for place in sorted(expected)])
    found = token_losses(lm, documents, **protocol)
    assert [len(nats) for nats in found] == [18, 0, 7]
    assert_close(np.concatenate(found), losses, FLOAT32, "token losses")
    result = evaluate_stream(lm, documents, **protocol)
    sums = np.array([losses[:18].sum(), 0.0, losses[18:].sum()])
    assert_close(result.document_nats, sums, FLOAT32, "nats")
    assert list(result.document_targets) == [18, 0, 7]
    assert result.nats_per_token == pytest.approx(losses.mean(), rel=1e-5)
