"""The adaptive oracle equals what two public implementations computed."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles import golden
from tests.oracles.adaptive_oracle import dense_embedding
from tests.oracles.adaptive_oracle import log_prob
from tests.oracles.adaptive_oracle import token_losses
from tests.oracles.model_oracle import run_model
from tests.tolerances import assert_close

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


@pytest.mark.parametrize("name", golden.ADAPTIVE)
def test_oracle_repeats_losses_and_hidden_states(name):
    model = golden.load_golden(name, "float64")
    cutoffs = model.arguments["cutoffs"]
    table = dense_embedding(model.weights, cutoffs)
    # The blocks know nothing of bins: one table of width D is the same.
    weights = {
        **model.weights,
        "embedding": table,
        "output_embedding": np.zeros_like(table),
    }
    segment = model.segments[0]
    result = run_model(
        model.config, weights, segment.inputs, None, model.initial_memory()
    )
    assert_close(
        result.hidden, segment.hidden, tolerances.FLOAT64, f"{name}: hidden"
    )
    for number, segment in enumerate(model.segments):
        assert_close(
            token_losses(
                model.weights, cutoffs, segment.hidden, segment.targets
            ),
            segment.losses,
            tolerances.FLOAT64,
            f"{name}, segment {number}: losses",
        )


def test_reversed_clusters_are_another_model():
    model = golden.load_golden("kim_adaptive_div2", "float64")
    weights = dict(model.weights)
    for name in ("cluster_kernel", "cluster_bias"):
        weights[name] = weights[name][::-1]
    segment = model.segments[0]
    losses = token_losses(
        weights, model.arguments["cutoffs"], segment.hidden, segment.targets
    )
    assert np.abs(losses - segment.losses).max() > 1e-3


@pytest.mark.parametrize("name", ["kim_adaptive_div1_proj", "hf_adaptive_div2"])
def test_probabilities_of_the_oracle_sum_to_one(name):
    model = golden.load_golden(name, "float64")
    state = model.segments[0].hidden[0, 0]
    cutoffs = model.arguments["cutoffs"]
    total = sum(
        np.exp(log_prob(model.weights, cutoffs, state, token))
        for token in range(len(model.weights["output_bias"]))
    )
    assert_close(total, 1.0, tolerances.FLOAT64, "sum of the probabilities")
