"""The graphs for ONNX against the NumPy model, before any converter."""

import numpy as np
import pytest
from keras import ops

from keras_txl.export.onnx_graphs import make_graph
from tests import tolerances
from tests.models.test_token_decoding_oracle import LENGTH
from tests.models.test_token_decoding_oracle import MEMORY
from tests.models.test_token_decoding_oracle import MODELS
from tests.models.test_token_decoding_oracle import PROMPT
from tests.models.test_token_decoding_oracle import oracle
from tests.oracles.weights import randomize
from tests.tolerances import assert_close

pytestmark = pytest.mark.backend("tensorflow")


def key_value_logits(lm, ids):
    """Logits of segments of 5, 1 and 8 tokens; row 1 is padded on the left."""
    step = make_graph(lm, "kv", MEMORY).function
    heads, width = lm.backbone.num_heads, lm.backbone.head_dim
    past = [ops.zeros((2, heads, 0, width))] * 2 * lm.backbone.num_layers
    padded = np.zeros((2, LENGTH + 2), "int64")
    padded[0, 2:], padded[1, 2:] = ids
    valid = np.ones_like(padded)
    valid[:, :2] = 0
    found = []
    for begin, end in ((0, PROMPT + 2), (7, 8), (8, LENGTH + 2)):
        logits, *past = step(
            ops.convert_to_tensor(padded[:, begin:end]),
            ops.convert_to_tensor(valid[:, :end]),
            *past,
        )
        found.append(np.asarray(logits))
    return np.concatenate(found, axis=1)[:, 2:]


def ring_logits(lm, ids):
    """Logits of one token at a time, the rows at different positions."""
    step = make_graph(lm, "kv_ring", MEMORY).function
    heads, width = lm.backbone.num_heads, lm.backbone.head_dim
    ring = [
        np.full((2, heads, MEMORY, width), 5.0, "float32")
        for _ in range(2 * lm.backbone.num_layers)
    ]
    found = []
    for index in range(LENGTH):
        position = np.array([index, index + 100])
        logits, *new = step(
            ops.convert_to_tensor(ids[:, index : index + 1].astype("int64")),
            ops.convert_to_tensor(position),
            ops.convert_to_tensor([min(index, MEMORY)] * 2, dtype="int64"),
            *map(ops.convert_to_tensor, ring),
        )
        for slots, row in zip(ring, new, strict=True):
            slots[[0, 1], :, position % MEMORY] = np.asarray(row)[:, :, 0]
        found.append(np.asarray(logits))
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("name", MODELS)
def test_keys_and_values_equal_the_sliding_window_of_the_oracle(make_lm, name):
    lm = make_lm(
        vocabulary_size=11,
        hidden_dim=6,
        intermediate_dim=7,
        memory_length=MEMORY,
        batch_size=None,
        **MODELS[name],
    )
    randomize(lm, seed=3)
    ids = np.random.default_rng(4).integers(0, 11, (2, LENGTH)).astype("int32")
    expected, _ = oracle(lm, ids)
    tolerance = tolerances.FLOAT32
    if lm.backbone.normalize_first:
        tolerance = tolerances.PRE_NORM_STATES
    for logits, what in (
        (key_value_logits(lm, ids), "kv"),
        (ring_logits(lm, ids), "kv_ring"),
    ):
        assert_close(logits[:, PROMPT:], expected, tolerance, what)


def test_flavours_that_a_model_has_not_are_named(make_lm):
    lm = make_lm(position="absolute_sinusoidal", batch_size=None)
    with pytest.raises(ValueError, match="Use flavour='hidden'"):
        make_graph(lm, "kv", 6)
    with pytest.raises(ValueError, match="memory of at least one token"):
        make_graph(make_lm(batch_size=None), "kv_ring", 0)
    with pytest.raises(ValueError, match="must be one of 'hidden', 'kv'"):
        make_graph(lm, "ring", 6)
