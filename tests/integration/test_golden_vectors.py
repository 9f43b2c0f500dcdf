"""The library repeats the released implementations on every backend."""

import keras
import numpy as np
import pytest
from keras import ops

from tests import tolerances
from tests.oracles import golden
from tests.oracles.gradients import gradients_of
from tests.oracles.weights import golden_lm
from tests.oracles.weights import oracle_variables
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


@pytest.mark.parametrize("name", golden.ALL)
def test_losses_and_memories_with_memory_as_a_value(name):
    model = golden.load_golden(name)
    lm = golden_lm(model)
    memory = lm.initial_memory(model.batch_size)
    known = 0
    for number, segment in enumerate(model.segments):
        memory = _resized(lm, memory, segment.memory_length)
        losses, memory = lm.token_losses(
            segment.inputs, segment.targets, memory
        )
        known = min(known + segment.inputs.shape[1], segment.memory_length)
        what = f"{name}, segment {number}: "
        assert_close(
            losses, segment.losses, tolerances.FLOAT32, what + "losses"
        )
        assert_close(
            to_numpy(memory["states"])[:, :, segment.memory_length - known :],
            segment.states[:, :, segment.states.shape[2] - known :],
            tolerances.FLOAT32,
            what + "memory",
        )
        assert to_numpy(memory["length"]).tolist() == [known] * model.batch_size


@pytest.mark.parametrize("name", golden.FIRST_SEGMENT)
def test_first_segment_of_absolute_positions_with_memory(name):
    """Later segments differ by design.

    The original adds positions into its cached tensor again and again; here
    memory is what a layer received, before any position.
    """
    model = golden.load_golden(name)
    segment = model.segments[0]
    lm = golden_lm(model)
    losses, memory = lm.token_losses(
        segment.inputs, segment.targets, lm.initial_memory(model.batch_size)
    )
    assert_close(losses, segment.losses, tolerances.FLOAT32, "losses")
    assert_close(
        golden.with_positions(model, to_numpy(memory["states"])),
        segment.states,
        tolerances.FLOAT32,
        "memory with positions added",
    )


@pytest.mark.parametrize("name", golden.NAMED)
def test_step_gives_the_log_probabilities(name):
    model = golden.load_golden(name)
    lm = golden_lm(model)
    memory = lm.initial_memory(model.batch_size)
    for number, segment in enumerate(model.segments):
        logits, memory = lm.step(segment.inputs, memory)
        assert_close(
            ops.log_softmax(logits),
            segment.log_probabilities,
            tolerances.FLOAT32,
            f"{name}, segment {number}: log-probabilities",
        )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", golden.NAMED)
def test_calls_carry_memory_from_segment_to_segment(name, training):
    model = golden.load_golden(name)
    lm = golden_lm(model, batch_size=model.batch_size)
    for number, segment in enumerate(model.segments):
        logits = lm(segment.inputs, training=training)
        assert_close(
            ops.log_softmax(logits),
            segment.log_probabilities,
            tolerances.FLOAT32,
            f"{name}, segment {number}: log-probabilities",
        )


@pytest.mark.parametrize("name", golden.NAMED)
def test_evaluate_gives_the_mean_loss(name):
    model = golden.load_golden(name)
    lm = golden_lm(model, batch_size=model.batch_size)
    lm.compile(optimizer="sgd")
    for _ in range(2):  # each starts from a clean memory
        loss = lm.evaluate(
            np.concatenate([segment.inputs for segment in model.segments]),
            np.concatenate([segment.targets for segment in model.segments]),
            batch_size=model.batch_size,
            verbose=0,
            return_dict=True,
        )["loss"]
        expected = np.mean([segment.losses for segment in model.segments])
        assert_close(loss, expected, tolerances.FLOAT32, f"{name}: loss")


@pytest.mark.parametrize("name", golden.WITH_GRADIENTS)
def test_gradients_of_every_weight(name):
    model = golden.load_golden(name)
    lm = golden_lm(model, batch_size=model.batch_size)
    segments = model.segments[: model.gradient_segment + 1]
    for segment in segments[:-1]:
        lm(segment.inputs, training=True)
    last = segments[-1]

    def loss():
        logits = lm(last.inputs, training=True)
        losses = keras.losses.sparse_categorical_crossentropy(
            last.targets, logits, from_logits=True
        )
        return ops.mean(losses)

    expected = model.gradients
    variables = oracle_variables(lm)
    if model.arguments.get("tie_weight", True):
        # One variable: the file has the sum under the name of the input.
        variables.pop("output_embedding", None)
        expected.pop("output_embedding", None)
    names = sorted(variables)
    found = gradients_of(loss, [variables[key].variable for key in names])
    # Copies of shared biases have no gradient of their own in the file.
    assert set(names) == set(expected) - _copies(expected)
    for key, gradient in zip(names, found, strict=True):
        assert_close(
            variables[key].to_oracle(gradient),
            expected[key],
            tolerances.GRADIENT,
            f"{name}: gradient of {key}",
        )


def _copies(expected):
    if "content_bias" not in expected:
        return set()
    return {
        key
        for key in expected
        if key.endswith((".content_bias", ".position_bias"))
    }


def _resized(lm, memory, memory_length):
    """The same memory in another number of slots."""
    states = to_numpy(memory["states"])
    if states.shape[2] == memory_length:
        return memory
    longer = lm.initial_memory(states.shape[0], memory_length=memory_length)
    slots = to_numpy(longer["states"]).copy()
    slots[:, :, memory_length - states.shape[2] :] = states
    return {**memory, "states": ops.convert_to_tensor(slots)}
