"""Models with cutoffs repeat the released implementations."""

import pytest
from keras import ops

from tests import tolerances
from tests.oracles import golden
from tests.oracles.gradients import gradients_of
from tests.oracles.weights import golden_lm
from tests.oracles.weights import oracle_variables
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

WITH_GRADIENTS = (
    "kim_adaptive_div1",
    "kim_adaptive_div1_proj",
    "kim_adaptive_div2",
    "kim_adaptive_div2_untied",
    "hf_adaptive_div1",
    "hf_adaptive_div2",
)


@pytest.mark.parametrize("name", golden.ADAPTIVE)
def test_losses_and_memories_with_memory_as_a_value(name):
    model = golden.load_golden(name)
    lm = golden_lm(model)
    memory = lm.initial_memory(model.batch_size)
    known = 0
    for number, segment in enumerate(model.segments):
        before = memory
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
        if number == 1:
            log_probs, _ = lm.step(segment.inputs, before)
            assert_close(
                log_probs,
                segment.log_probabilities,
                tolerances.FLOAT32,
                what + "log-probabilities",
            )


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_of_every_weight(name):
    model = golden.load_golden(name)
    # Two tokens a chunk, so that every sum over chunks is one.
    lm = golden_lm(model, batch_size=model.batch_size, loss_chunk=2)
    lm.compile(optimizer="sgd", weighted_metrics=None)
    segments = model.segments[: model.gradient_segment + 1]
    for segment in segments[:-1]:
        lm(segment.inputs, training=True)
    last = segments[-1]

    def loss():
        hidden = lm(last.inputs, training=True)
        return lm.compute_loss(
            last.inputs, ops.convert_to_tensor(last.targets), hidden
        )

    variables = oracle_variables(lm)
    names = sorted(variables)
    found = gradients_of(loss, [variables[key].variable for key in names])
    shared = {key for key in model.gradients if key.startswith("layer_")}
    shared -= set(names)  # copies of biases that all layers share
    assert set(names) == set(model.gradients) - shared
    for key, gradient in zip(names, found, strict=True):
        assert_close(
            variables[key].to_oracle(gradient),
            model.gradients[key],
            tolerances.GRADIENT,
            f"{name}: gradient of {key}",
        )
