"""One block against the layer of the NumPy model."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import run_layer
from tests.oracles.weights import block_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    "batch, segment, memory", [(1, 1, 1), (2, 4, 0), (2, 3, 5), (3, 6, 2)]
)
def test_block_equals_the_oracle(
    normalize_first, activation, batch, segment, memory
):
    from keras_txl.layers import TransformerXLBlock

    rng = np.random.default_rng(7)
    context = rng.normal(size=(batch, memory + segment, 6)).astype("float32")
    block = TransformerXLBlock(
        2,
        4,
        intermediate_dim=10,
        normalize_first=normalize_first,
        activation=activation,
    )
    block.build((batch, segment, 6))
    randomize(block, seed=7)
    output = compiled(block)(context[:, memory:], context)
    config = OracleConfig(
        1, normalize_first=normalize_first, activation=activation
    )
    expected = [
        run_layer(
            config,
            block_weights(block, "layer_0."),
            "layer_0.",
            memory=list(row[:memory].astype("float64")),
            x=list(row[memory:].astype("float64")),
            token_runs=[0] * segment,
            window=None,
        )
        for row in context
    ]
    assert_close(output, expected, tolerances.FLOAT32, "block output")
