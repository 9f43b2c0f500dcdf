"""Every scheme of positions against the NumPy model, over streams of
documents with padding and memory."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import run_model
from tests.oracles.model_oracle import token_losses
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

# Tables are shorter than some distances and longer than others.
SCHEMES = {
    "relative_learned": {"max_distance": 6},
    "relative_learned_shared": {"max_distance": 20, "clamp_length": 3},
    "relative_clipped": {"max_distance": 4},
    "relative_clipped_values": {"max_distance": 5, "relative_values": True},
    "absolute_sinusoidal": {"clamp_length": 4},
    "absolute_learned": {"max_distance": 7},
    "none": {},
}
DOCUMENTS = (
    [[0, 0, -1, 0, 0], [3, 3, 4, 4, 4]],
    [[0, 0, 0, 1, 1], [-1, -1, -1, -1, -1]],
    [[1, -1, -1, 2, 1], [4, 4, -1, 4, 4]],
    [[1, 1, 1, 1, 1], [4, -1, 4, -1, 5]],
)


def draw_lm(name, seed):
    """A model of the scheme; each seed another corner."""
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM

    rng = np.random.default_rng(seed)

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    position = name.removesuffix("_shared").removesuffix("_values")
    lm = TransformerXLCausalLM(
        TransformerXLBackbone(
            vocabulary_size=11,
            num_layers=2,
            num_heads=2,
            hidden_dim=6,
            intermediate_dim=7,
            head_dim=pick(None, 4),
            memory_length=pick(3, 8),
            attention_window=pick(None, 4, "memory_length+1"),
            share_attention_biases=name.endswith("_shared"),
            normalize_first=pick(True, False),
            position=position,
            dropout=0.0,
            **SCHEMES[name],
        )
    )
    randomize(lm, seed)
    return lm


def oracle_config(backbone):
    return OracleConfig(
        num_layers=backbone.num_layers,
        attention_window=backbone.attention_window,
        clamp_length=backbone.clamp_length,
        normalize_first=backbone.normalize_first,
        position=backbone.position,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCHEMES)
def test_positions_equal_the_oracle_over_a_stream_of_documents(name, seed):
    lm = draw_lm(name, seed)
    backbone = lm.backbone
    config, weights = oracle_config(backbone), oracle_weights(lm)
    tolerance = tolerances.FLOAT32
    if backbone.normalize_first:
        tolerance = tolerances.PRE_NORM_STATES
    rng = np.random.default_rng(seed)
    memory = lm.initial_memory(2)
    expected_memory = {key: to_numpy(value) for key, value in memory.items()}
    for number, documents in enumerate(DOCUMENTS):
        document_ids = np.array(documents, "int32")
        token_ids, targets = rng.integers(0, 11, (2, 2, 5)).astype("int32")
        expected = run_model(
            config, weights, token_ids, document_ids, expected_memory
        )
        losses, memory = lm.token_losses(
            {"token_ids": token_ids, "document_ids": document_ids},
            targets,
            memory,
        )
        expected_memory = expected.memory
        what = f"{name}, seed {seed}, segment {number}: "
        assert_close(
            losses,
            token_losses(expected.logits, targets, document_ids),
            tolerance,
            what + "losses",
        )
        for key in ("states", "length", "document"):
            assert_close(
                memory[key], expected_memory[key], tolerance, what + key
            )


@pytest.mark.parametrize("name", ["absolute_sinusoidal", "absolute_learned"])
def test_memory_holds_no_positions_after_thirty_segments(name):
    """The first layer's memory is the embedding of its tokens, no more."""
    lm = draw_lm(name, 0)
    rng = np.random.default_rng(0)
    memory = lm.initial_memory(1, memory_length=5)
    stream = rng.integers(0, 11, (1, 60)).astype("int32")
    for start in range(0, 60, 2):
        _, memory = lm.step(stream[:, start : start + 2], memory)
    weights = oracle_weights(lm)
    embedded = weights["embedding"][stream[0, -5:]] * np.sqrt(6)
    assert_close(
        to_numpy(memory["states"])[0, 0],
        embedded,
        tolerances.FLOAT32,
        "memory of the first layer",
    )


@pytest.mark.parametrize("name", SCHEMES)
def test_calls_that_carry_memory_equal_memory_as_a_value(name):
    import keras_txl

    lm = draw_lm(name, 1)
    config = {**lm.backbone.get_config(), "batch_size": 2}
    rebuilt = keras_txl.models.TransformerXLBackbone.from_config(config)
    for new, old in zip(
        rebuilt.trainable_variables,
        lm.backbone.trainable_variables,
        strict=True,
    ):
        new.assign(old)
    rng = np.random.default_rng(1)
    memory = lm.initial_memory(2)
    for number, documents in enumerate(DOCUMENTS[:2]):
        inputs = {
            "token_ids": rng.integers(0, 11, (2, 5)).astype("int32"),
            "document_ids": np.array(documents, "int32"),
        }
        hidden, memory = lm.backbone.call_with_memory(inputs, memory)
        assert_close(
            rebuilt(inputs),
            hidden,
            tolerances.FLOAT32,
            f"{name}, segment {number}",
        )
