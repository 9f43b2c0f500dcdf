"""Adaptive embedding and softmax against loops over single tokens."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.layers import AdaptiveEmbedding
from keras_txl.layers import AdaptiveSoftmax
from tests import tolerances
from tests.oracles.adaptive_oracle import embed_token
from tests.oracles.adaptive_oracle import log_prob
from tests.oracles.adaptive_oracle import token_losses
from tests.oracles.gradients import compiled
from tests.oracles.gradients import gradients_of
from tests.oracles.weights import adaptive_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

VOCABULARY, HIDDEN = 23, 6
CUTOFFS = [5, 9, 10]  # the middle tail is one token

CASES = {
    "div1": dict(embedding_dim=6),
    "div1_wider": dict(embedding_dim=4),
    "div1_some_tied": dict(
        embedding_dim=4, tie_projections=[True, False, True, False]
    ),
    "div2": dict(embedding_dim=16, div_val=2),
    "div2_own": dict(
        embedding_dim=8, div_val=2, tie_embeddings=False, tie_projections=False
    ),
    "div1_own_tables": dict(embedding_dim=6, tie_embeddings=False),
}


def make(case, **changes):
    arguments = {**CASES[case], **changes}
    embedding = AdaptiveEmbedding(
        VOCABULARY,
        arguments.pop("embedding_dim"),
        HIDDEN,
        CUTOFFS,
        arguments.pop("div_val", 1),
        dtype=arguments.get("dtype"),
    )
    softmax = AdaptiveSoftmax(embedding, **{"chunk": 2, **arguments})
    softmax.build((None, None, HIDDEN))
    randomize(softmax, seed=1)
    return embedding, softmax


def draw(seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(2, 6, HIDDEN)).astype("float32")
    # Of each bin at least one, and none sorted by bin.
    targets = np.array([[22, 0, 9, 7, 3, 12], [4, 9, 5, 19, 8, 1]], "int32")
    return hidden, targets


@pytest.mark.parametrize("case", CASES)
def test_embedding_projects_the_row_of_each_token(case):
    embedding, softmax = make(case)
    weights = adaptive_weights(embedding, softmax)
    ids = np.arange(VOCABULARY)[None]
    expected = [embed_token(weights, CUTOFFS, token) for token in ids[0]]
    assert_close(
        compiled(embedding)(ids)[0],
        np.array(expected),
        tolerances.FLOAT32,
        case,
    )


@pytest.mark.parametrize("case", CASES)
def test_losses_in_token_order(case):
    embedding, softmax = make(case)
    weights = adaptive_weights(embedding, softmax)
    hidden, targets = draw()
    assert_close(
        compiled(softmax)(hidden, targets),
        token_losses(weights, CUTOFFS, hidden, targets),
        tolerances.FLOAT32,
        case,
    )


@pytest.mark.parametrize("case", ["div1_some_tied", "div2"])
def test_log_probabilities_of_every_token(case):
    embedding, softmax = make(case)
    weights = adaptive_weights(embedding, softmax)
    hidden, _ = draw()
    state = hidden[1, 2]
    expected = [
        log_prob(weights, CUTOFFS, state.astype("float64"), token)
        for token in range(VOCABULARY)
    ]
    assert_close(
        softmax(hidden)[1, 2], np.array(expected), tolerances.FLOAT32, case
    )


@pytest.mark.parametrize("case", ["div1", "div1_some_tied", "div2"])
def test_gradients_are_those_of_the_dense_log_probabilities(case):
    embedding, softmax = make(case)
    hidden, targets = draw()
    states = keras.Variable(hidden)
    scale = np.linspace(-1, 2, targets.size).reshape(targets.shape)
    scale = scale.astype("float32")
    variables = [states, *softmax.trainable_variables]

    def chunked():
        losses = softmax.token_losses(
            ops.convert_to_tensor(states.value), targets
        )
        return ops.sum(losses * ops.convert_to_tensor(scale))

    def dense():
        log_probs = softmax.log_probs(ops.convert_to_tensor(states.value))
        chosen = ops.take_along_axis(log_probs, targets[..., None], axis=-1)
        return -ops.sum(chosen[..., 0] * ops.convert_to_tensor(scale))

    found = gradients_of(chunked, variables)
    expected = gradients_of(dense, variables)
    for variable, ours, theirs in zip(variables, found, expected, strict=True):
        assert_close(
            ours, theirs, tolerances.FLOAT32, f"{case}: {variable.path}"
        )


def test_low_precision_is_as_good_as_plain_products_in_it():
    embedding, softmax = make("div2", dtype="mixed_bfloat16")
    weights = adaptive_weights(embedding, softmax)
    hidden, targets = draw()
    exact = token_losses(weights, CUTOFFS, hidden, targets)
    losses = to_numpy(softmax(hidden, targets)).astype("float64")
    plain = np.take_along_axis(
        to_numpy(softmax(hidden)), targets[..., None], axis=-1
    )[..., 0]
    plain = np.abs(plain.astype("float64") + exact).max()
    error = np.abs(losses - exact).max()
    assert 1e-5 < error <= 1.5 * plain


def test_rare_tokens_keep_their_losses():
    """In probabilities, float32 would end at about 103 nats."""
    embedding, softmax = make("div1")
    hidden, targets = draw()
    softmax.cluster_bias.assign(np.full(3, -300, "float32"))
    losses = to_numpy(softmax(hidden, targets))
    assert (losses[targets >= CUTOFFS[0]] > 250).all()
    assert np.isfinite(losses).all()
