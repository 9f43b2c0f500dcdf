"""Logits of one token at a time against the NumPy model, across ring turns."""

import numpy as np
import pytest
from keras import ops

from keras_txl.models.token_decoding import TokenDecoder
from keras_txl.models.value_function import compile_value_function
from tests import tolerances
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import empty_memory
from tests.oracles.model_oracle import run_model
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

MEMORY = 3
PROMPT = 5  # longer than the memory: what is read at once has a window, too
LENGTH = 14  # two turns of the ring behind the prompt

MODELS = {
    "post_norm": {},
    "pre_norm": {"normalize_first": True, "share_attention_biases": False},
    "zeros": {"attend_empty_memory": True, "normalize_first": True},
    "window": {"attention_window": 3, "clamp_length": 2},
    "capped": {"attention_logit_cap": 2.0, "memory_layer_norm": True},
    "learned": {"position": "relative_learned", "max_distance": 3},
    "clipped": {
        "position": "relative_clipped",
        "max_distance": 3,
        "relative_values": True,
    },
    "none": {"position": "none"},
}


def logits_of(lm, memory_length, prompt_length, ids):
    """Logits behind the prompt, `(B, T - P, V)`, and the memory at the end."""
    decoder = TokenDecoder(lm, memory_length)
    batch, length = ids.shape

    def run(ids, memory):
        if prompt_length:
            prompt = ids[:, :prompt_length]
            kept = ops.ones_like(prompt) > 0
            memory = decoder.read(prompt, kept, memory)
        terms = decoder.terms_and_products()
        state = decoder.to_state(memory)
        rows = ops.zeros((batch, length - prompt_length, 11))

        def feed(place, rows, state):
            newest = ops.slice(ids, ops.stack([0, place]), (batch, 1))
            logits, state = decoder.step(newest, state, terms)
            start = ops.stack([0, place - prompt_length, 0])
            return (
                place + 1,
                ops.slice_update(rows, start, logits[:, None]),
                state,
            )

        _, rows, state = ops.while_loop(
            lambda place, *_: place < length,
            feed,
            (ops.full((), prompt_length, dtype="int32"), rows, state),
        )
        return rows, decoder.to_memory(state)

    memory = lm.initial_memory(batch, memory_length)
    ids = ops.convert_to_tensor(ids)
    return compile_value_function(lm, run)(ids, memory)


def oracle(lm, ids):
    """The same, every token a segment of its own."""
    backbone = lm.backbone
    config = OracleConfig(
        num_layers=2,
        attention_window=backbone.attention_window,
        clamp_length=backbone.clamp_length,
        normalize_first=backbone.normalize_first,
        attend_empty_memory=backbone.attend_empty_memory,
        position=backbone.position,
        attention_logit_cap=backbone.attention_logit_cap,
        memory_layer_norm=backbone.memory_layer_norm,
    )
    memory = empty_memory(2, 2, MEMORY, 6)
    weights, logits = oracle_weights(lm), []
    for place in range(LENGTH):
        result = run_model(
            config, weights, ids[:, place : place + 1], None, memory
        )
        logits.append(result.logits)
        memory = result.memory
    return np.concatenate(logits, axis=1)[:, PROMPT:], memory


@pytest.mark.parametrize("name", MODELS)
def test_tokens_equal_the_sliding_window_of_the_oracle(make_lm, name):
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
    logits, memory = logits_of(lm, MEMORY, PROMPT, ids)
    expected, expected_memory = oracle(lm, ids)
    tolerance = tolerances.FLOAT32
    if lm.backbone.normalize_first:
        tolerance = tolerances.PRE_NORM_STATES
    assert_close(logits, expected, tolerance, "logits")
    for key in ("states", "length", "document"):
        assert_close(memory[key], expected_memory[key], tolerance, key)


def test_tokens_equal_one_segment_while_memory_covers_the_text(make_lm):
    lm = make_lm(vocabulary_size=11, memory_length=LENGTH, batch_size=None)
    randomize(lm, seed=5)
    ids = np.random.default_rng(6).integers(0, 11, (2, LENGTH)).astype("int32")
    logits, _ = logits_of(lm, LENGTH, 0, ids)
    expected, _ = lm.step(ids, lm.initial_memory(2))
    assert_close(logits, expected, tolerances.FLOAT32, "logits")


def test_tokens_are_fed_in_mixed_precision(make_lm):
    """Weights are float32, and nothing casts them outside of a layer."""
    lm = make_lm(num_layers=1, dtype="mixed_bfloat16")
    randomize(lm, seed=3)
    ids = ops.convert_to_tensor([[4, 7]], dtype="int32")
    memory = lm.initial_memory(1, MEMORY)
    hidden, _ = lm.backbone.call_with_memory(ids, memory)
    wanted = lm.head.logits(hidden, ops.zeros_like(ids))
    decoder = TokenDecoder(lm, MEMORY)
    state = decoder.to_state(memory)
    for place in range(2):
        newest = ids[:, place : place + 1]
        logits, state = decoder.step(newest, state, decoder.terms())
    difference = to_numpy(ops.cast(logits - wanted[:, 1], "float32"))
    assert np.abs(difference).max() < 0.05
