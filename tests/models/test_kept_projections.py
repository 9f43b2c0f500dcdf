"""Kept keys and values against the memory of hidden states they stand for."""

import numpy as np
import pytest

from keras_txl.evaluation import EvaluationProtocol
from keras_txl.evaluation.token_losses import segment_reader
from keras_txl.models.kept_projections import KeptProjections
from tests.oracles.weights import randomize
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close

PRE_NORM = {"normalize_first": True, "attention_window": 4}
KEPT = {
    "paper": {"clamp_length": 3},
    "empty slots attended to": {"attend_empty_memory": True},
    "pre-norm, a window": PRE_NORM,
    "norm on memory": {"memory_layer_norm": True},
    "a table for each layer": {
        "position": "relative_learned",
        "max_distance": 5,
    },
    "values by distance": {
        "position": "relative_clipped",
        "max_distance": 5,
        "relative_values": True,
    },
    "no positions, heads of a width of their own": {
        "position": "none",
        "head_dim": 3,
    },
    "no memory": {"memory_length": 0},
}
NOT_KEPT = {
    "positions in front": {"position": "absolute_sinusoidal"},
    "rounded memory": {"memory_dtype": "bfloat16"},
    "wider computation": {"dtype": "float64"},
    "normalised empty slots": {**PRE_NORM, "attend_empty_memory": True},
}


def segments():
    """A document that ends within a segment, one at a border, and padding."""
    documents = np.array(
        [
            [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, -1], [1, 2, 2, 2]],
            [[0, 0, 0, 0], [1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, 1, 1]],
        ]
    )
    ids = np.random.default_rng(4).integers(0, 17, (2, 4, 5))
    for i in range(4):
        inputs = {
            "token_ids": ids[:, i, :-1],
            "document_ids": documents[:, i],
        }
        yield inputs, ids[:, i, 1:]


@pytest.mark.backend("tensorflow", "torch")  # JAX compiles each operation
@pytest.mark.parametrize("name", KEPT)
def test_losses_are_those_of_the_hidden_states(make_lm, name):
    lm = make_lm(**KEPT[name])
    lm.compile(run_eagerly=True)
    randomize(lm, seed=6, scale=0.3)
    assert KeptProjections.suits(lm.backbone)
    kept = KeptProjections(lm, segment_length=4)
    memory = kept_memory = lm.initial_memory(2)
    for inputs, targets in segments():
        expected, memory = lm.token_losses(inputs, targets, memory)
        found, kept_memory = kept.token_losses(inputs, targets, kept_memory)
        assert_close(found, expected, FLOAT32, name)
    for part in ("length", "document"):
        assert_close(kept_memory[part], memory[part], 0.0, part)


@pytest.mark.backend("tensorflow", "torch")  # JAX compiles each operation
@pytest.mark.parametrize("name", ["paper", "values by distance"])
def test_mixed_precision_stays_within_its_rounding(make_lm, name):
    lm = make_lm(num_layers=1, dtype="mixed_bfloat16", **KEPT[name])
    lm.compile(run_eagerly=True)
    randomize(lm, seed=6, scale=0.3)
    kept = KeptProjections(lm, segment_length=4)
    memory = kept_memory = lm.initial_memory(2)
    for inputs, targets in list(segments())[:2]:
        expected, memory = lm.token_losses(inputs, targets, memory)
        found, kept_memory = kept.token_losses(inputs, targets, kept_memory)
        assert_close(found, expected, 0.02, name)


@pytest.mark.backend("tensorflow", "torch")  # JAX has no float64 here
@pytest.mark.parametrize("name", NOT_KEPT)
def test_what_projections_cannot_stand_for_keeps_its_memory(make_lm, name):
    assert not KeptProjections.suits(make_lm(**NOT_KEPT[name]).backbone)


def test_an_evaluation_keeps_projections_unless_its_memory_is_zeroed(make_lm):
    lm = make_lm()
    lm.compile(run_eagerly=True)
    inputs, targets = next(segments())
    for zeroed in (False, True):
        protocol = EvaluationProtocol(4, memory_length=6, zero_memory=zeroed)
        read = segment_reader(lm, protocol)
        _, memory = read(inputs, targets, None, lm.initial_memory(2))
        assert ("states" in memory) == zeroed


@pytest.mark.backend("tensorflow")
def test_xla_gives_the_same_losses(make_lm):
    lm = make_lm(num_layers=1, cutoffs=[5, 11])
    inputs, targets = next(segments())
    losses = []
    for jit_compile in (False, True):
        lm.compile(optimizer="sgd", jit_compile=jit_compile)
        kept = KeptProjections(lm, segment_length=4)
        losses.append(kept.token_losses(inputs, targets, lm.initial_memory(2)))
    assert len(lm._value_functions) > 2
    assert_close(losses[1][0], losses[0][0], FLOAT32, "nats")
