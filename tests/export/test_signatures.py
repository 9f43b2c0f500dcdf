"""The functions of a SavedModel, from models of every architecture switch."""

import numpy as np
import pytest
import tensorflow as tf

from keras_txl.export.check import expected_values
from keras_txl.export.check import replay
from keras_txl.export.generate_signature import GENERATE
from keras_txl.export.generate_signature import GenerateSignature
from keras_txl.export.operations import check_operations
from keras_txl.export.saved_model_check import StreamSteps
from keras_txl.export.saved_model_check import check_generate
from keras_txl.export.saved_model_check import check_sessions
from keras_txl.export.session_signature import SESSION
from keras_txl.export.session_signature import SessionSignature
from keras_txl.export.signatures import StreamSignatures
from keras_txl.export.signatures import graph_function
from tests.oracles.weights import randomize

pytestmark = pytest.mark.backend("tensorflow")

M = 6
V = 41
SWITCHES = {
    "pre_norm_learned": {
        "normalize_first": True,
        "share_attention_biases": False,
        "position": "relative_learned",
        "max_distance": 4,
        "embedding_dim": 4,
    },
    "clipped_on_zeros": {
        "position": "relative_clipped",
        "max_distance": 3,
        "relative_values": True,
        "attend_empty_memory": True,
        "activation": "gelu",
    },
    "absolute": {"position": "absolute_learned", "max_distance": 32},
    "adaptive": {
        "cutoffs": [5, 11],
        "div_val": 2,
        "attention_window": "memory_length+1",
        "clamp_length": 4,
    },
    "chunked_without_positions": {
        "position": "none",
        "loss_chunk": 4,
        "attention_logit_cap": 1.5,
        "memory_layer_norm": True,
        "batch_size": 2,
    },
    "absolute_sinusoidal_bfloat16": {
        "position": "absolute_sinusoidal",
        "dtype": "bfloat16",
    },
}


def by_keywords(function):
    return lambda **request: function(request)


def make(make_lm, **overrides):
    arguments = {"vocabulary_size": V, "num_layers": 1, "batch_size": None}
    lm = make_lm(**{**arguments, **overrides})
    randomize(lm, seed=7)
    return lm


@pytest.mark.parametrize("name", SWITCHES)
def test_signatures_compute_what_the_model_does(make_lm, name):
    lm = make(make_lm, **SWITCHES[name])
    functions = StreamSignatures(lm, M, "float32").functions()
    generate = GenerateSignature(lm, M, [])
    functions["generate"] = graph_function(generate, GENERATE)
    tolerance = 5e-2 if name.endswith("bfloat16") else 1e-5
    steps = StreamSteps({k: by_keywords(f) for k, f in functions.items()})
    replay(expected_values(lm, M), steps.start, steps.step, tolerance, "graph")
    check_generate(steps.signatures, steps, 10 * tolerance)
    for key, function in functions.items():
        check_operations(key, function.get_concrete_function())
    if name == "adaptive":
        score, step = (
            last_axes(functions[k].get_concrete_function().graph)
            for k in ("score", "step")
        )
        assert V in step  # or the next line could not fail
        assert V not in score


def last_axes(graph):
    """Sizes of the last axes of the tensors of a graph."""
    graphs = [graph]
    graphs += [
        f.graph for f in graph._functions.values() if hasattr(f, "graph")
    ]
    tensors = (
        t for g in graphs for op in g.get_operations() for t in op.outputs
    )
    return {t.shape[-1] for t in tensors if t.shape.rank not in (None, 0, 1)}


def test_a_model_without_memory_steps(make_lm):
    lm = make(make_lm, memory_length=0)
    expected = expected_values(lm, 0)
    stream = StreamSignatures(lm, 0, "float32")
    functions = stream.functions()
    session = SessionSignature(stream, 1)
    functions["session_step"] = graph_function(session, SESSION)
    steps = StreamSteps({k: by_keywords(f) for k, f in functions.items()})
    replay(expected, steps.start, steps.step, 1e-5, "graph")
    check_sessions(steps.signatures, expected, 1e-5)


@pytest.mark.parametrize(
    ("memory_format", "least", "most"),
    [("bfloat16", 1e-4, 2e-2), ("int8", 1e-4, 3e-2)],
)
def test_memory_in_fewer_bits_costs_little(make_lm, memory_format, least, most):
    lm = make(make_lm)
    functions = StreamSignatures(lm, M, memory_format).functions()
    steps = StreamSteps({k: by_keywords(f) for k, f in functions.items()})
    memory = steps.start(1)
    assert memory["memory"].dtype.name == memory_format
    assert ("memory_scale" in memory) == (memory_format == "int8")
    errors = replay(
        expected_values(lm, M), steps.start, steps.step, most, "graph"
    )
    assert errors["memory"] > least  # it was rounded
    assert errors["memory_length"] == 0


def test_memory_in_int8_does_not_wear_out(make_lm):
    from keras_txl.export.memory_format import decode_states
    from keras_txl.export.memory_format import encode_states

    states = np.random.default_rng(3).normal(size=(2, 1, 5, 8))
    states[0, 0, 0] = 0
    first = encode_states(states.astype("float32"), "int8")
    assert np.abs(first["memory"]).max() == 127
    again = first
    for _ in range(20):
        again = encode_states(decode_states(again, "float32"), "int8")
    np.testing.assert_array_equal(again["memory"], first["memory"])
    error = np.abs(np.array(decode_states(first, "float32")) - states).max()
    assert 0 < error <= np.abs(states).max() / 127 / 2 * 1.01
    assert tf.reduce_all(tf.math.is_finite(decode_states(first, "float32")))
