"""The backbone and its head against the NumPy model, row by row."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import run_model
from tests.oracles.model_oracle import token_losses
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

VOCABULARY = 13


def draw_arguments(seed):
    """Arguments of the backbone; each seed another corner."""
    rng = np.random.default_rng(seed)

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    memory_length = pick(0, 1, 3, 7, 11)
    windows = [None, 1, 3, 6, "memory_length+1", "memory_length"]
    num_heads = pick(1, 2, 3)
    embedding_dim = pick(None, 5)
    arguments = {
        "vocabulary_size": VOCABULARY,
        "num_layers": pick(1, 2, 3),
        "num_heads": num_heads,
        "hidden_dim": 6 * pick(1, 2),
        "intermediate_dim": pick(4, 15),
        "head_dim": pick(None, 3, 4),
        "embedding_dim": embedding_dim,
        "memory_length": memory_length,
        "attention_window": pick(*windows),
        "clamp_length": pick(None, None, 1, 4),
        "share_attention_biases": pick(True, False),
        "normalize_first": pick(True, False),
        "activation": pick("relu", "relu", "gelu"),
        "layer_norm_epsilon": pick(1e-5, 1e-3),
        "tie_embeddings": pick(True, True, False),
        "tie_projections": pick(True, False) if embedding_dim else None,
        "dropout": 0.0,
    }
    arguments["attention_logit_cap"] = pick(None, 0.5, 2.0)
    may_normalize = not arguments["normalize_first"]
    arguments["memory_layer_norm"] = may_normalize and pick(True, False)
    return arguments


def draw_segment(rng, last_document, batch_size):
    """Ids with documents that go on or end, and padding anywhere."""
    length = (1, 6)[rng.integers(2)]  # few: JAX compiles each
    token_ids = rng.integers(0, VOCABULARY, (batch_size, length))
    documents = np.zeros((batch_size, length), dtype=int)
    for row in range(batch_size):
        current = last_document[row]
        for t in range(length):
            if rng.random() < 0.15:
                # Now and then back to an id that was seen before.
                current = rng.integers(0, 3)
            documents[row, t] = -1 if rng.random() < 0.2 else current
        last_document[row] = current
    if rng.random() < 0.2:
        documents[rng.integers(batch_size)] = -1
    return token_ids.astype("int32"), documents.astype("int32")


@pytest.mark.parametrize("seed", range(10))
def test_model_equals_the_oracle_over_a_stream_of_documents(seed):
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM

    arguments = draw_arguments(seed)
    lm = TransformerXLCausalLM(TransformerXLBackbone(**arguments))
    randomize(lm, seed)
    weights = oracle_weights(lm)
    config = OracleConfig(
        num_layers=arguments["num_layers"],
        attention_window=arguments["attention_window"],
        clamp_length=arguments["clamp_length"],
        normalize_first=arguments["normalize_first"],
        activation=arguments["activation"],
        layer_norm_epsilon=arguments["layer_norm_epsilon"],
        attention_logit_cap=arguments["attention_logit_cap"],
        memory_layer_norm=arguments["memory_layer_norm"],
    )
    rng = np.random.default_rng(seed + 1000)
    batch_size = int(rng.integers(1, 4))
    memory = lm.initial_memory(batch_size)
    documents = [0] * batch_size
    for number in range(4):
        token_ids, document_ids = draw_segment(rng, documents, batch_size)
        targets = rng.integers(0, VOCABULARY, token_ids.shape).astype("int32")
        expected = run_model(
            config,
            weights,
            token_ids,
            document_ids,
            {key: to_numpy(value) for key, value in memory.items()},
        )
        inputs = {"token_ids": token_ids, "document_ids": document_ids}
        losses, new_memory = lm.token_losses(inputs, targets, memory)
        what = f"{arguments}, segment {number}: "
        scale = np.abs(expected.layer_inputs).max(initial=1)
        tolerance = tolerances.FLOAT32
        if arguments["normalize_first"]:
            tolerance = tolerances.PRE_NORM_STATES
        assert_close(
            losses,
            token_losses(expected.logits, targets, document_ids),
            tolerance,
            what + f"losses (scale {scale:.3g})",
        )
        assert_close(
            new_memory["states"],
            expected.memory["states"],
            tolerance,
            what + "states",
        )
        for key in ("length", "document"):
            assert to_numpy(new_memory[key]).tolist() == list(
                expected.memory[key]
            ), what + key
        memory = new_memory


@pytest.mark.parametrize("normalize_first", [False, True])
def test_empty_slots_that_are_attended_are_zero_vectors(normalize_first):
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM

    lm = TransformerXLCausalLM(
        TransformerXLBackbone(
            vocabulary_size=VOCABULARY,
            num_layers=2,
            num_heads=2,
            hidden_dim=8,
            intermediate_dim=8,
            memory_length=9,
            normalize_first=normalize_first,
            attend_empty_memory=True,
            dropout=0.0,
        )
    )
    randomize(lm, 0)
    run = compiled(lm.backbone.call_with_memory)
    config = OracleConfig(
        2, normalize_first=normalize_first, attend_empty_memory=True
    )
    rng = np.random.default_rng(0)
    memory = lm.initial_memory(2)
    expected_memory = {key: to_numpy(value) for key, value in memory.items()}
    for number in range(3):
        token_ids = rng.integers(0, VOCABULARY, (2, 4)).astype("int32")
        expected = run_model(
            config, oracle_weights(lm), token_ids, None, expected_memory
        )
        hidden, memory = run(token_ids, memory)
        expected_memory = expected.memory
        assert_close(
            hidden,
            expected.hidden,
            tolerances.PRE_NORM_STATES
            if normalize_first
            else tolerances.FLOAT32,
            f"segment {number}: hidden",
        )
