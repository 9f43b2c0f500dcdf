"""The NumPy oracle equals what public implementations computed."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles import golden
from tests.oracles.attention_oracle import PADDING
from tests.oracles.model_oracle import empty_memory
from tests.oracles.model_oracle import run_model
from tests.oracles.model_oracle import token_losses
from tests.tolerances import assert_close

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def test_every_file_of_the_folder_is_used():
    stored = sorted(path.stem for path in golden.FOLDER.glob("*.npz"))
    models = golden.ALL + golden.FIRST_SEGMENT + golden.ADAPTIVE
    assert stored == sorted(models + golden.CURVES + golden.GARDEN)


@pytest.mark.parametrize("name", golden.ALL)
def test_oracle_repeats_losses_hidden_states_and_memory(name):
    model = golden.load_golden(name, "float64")
    memory = model.initial_memory()
    known = model.first_states.shape[2]
    for number, segment in enumerate(model.segments):
        valid = memory["states"].shape[2] - memory["length"][0]
        memory = golden.to_memory(
            memory["states"][:, :, valid:], segment.memory_length
        )
        result = run_model(
            model.config, model.weights, segment.inputs, None, memory
        )
        what = f"{name}, segment {number}: "
        losses = token_losses(result.logits, segment.targets)
        assert_close(
            result.hidden, segment.hidden, tolerances.FLOAT64, what + "hidden"
        )
        assert_close(
            losses, segment.losses, tolerances.FLOAT64, what + "losses"
        )
        memory = result.memory
        known = min(known + segment.inputs.shape[1], segment.memory_length)
        assert list(memory["length"]) == [known] * model.batch_size
        if segment.states is not None:
            assert_close(
                memory["states"][:, :, segment.memory_length - known :],
                segment.states,
                tolerances.FLOAT64,
                what + "memory",
            )
    assert model.segments[-1].states is not None


@pytest.mark.parametrize("name", golden.FIRST_SEGMENT)
def test_first_segment_of_absolute_positions_with_memory(name):
    """Later segments differ: the original adds positions in place.

    What it hands on as memory is a layer's input with positions added, and
    the next segment adds those of its own places on top, and so on. Ours
    never holds a position.
    """
    model = golden.load_golden(name, "float64")
    segment = model.segments[0]
    memory = model.initial_memory()
    result = run_model(
        model.config, model.weights, segment.inputs, None, memory
    )
    losses = token_losses(result.logits, segment.targets)
    assert_close(result.hidden, segment.hidden, tolerances.FLOAT64, "hidden")
    assert_close(losses, segment.losses, tolerances.FLOAT64, "losses")
    assert_close(
        golden.with_positions(model, result.memory["states"]),
        golden.load_golden(name).segments[0].states,
        tolerances.FLOAT32,
        "memory with positions added",
    )


def test_zeros_that_are_attended_may_also_be_empty_slots():
    model = golden.load_golden("hf_untie_r", "float64")
    batch_size, num_layers, length, hidden_dim = model.first_states.shape
    memory = empty_memory(batch_size, num_layers, length, hidden_dim)
    segment = model.segments[0]
    result = run_model(
        model.config, model.weights, segment.inputs, None, memory
    )
    losses = token_losses(result.logits, segment.targets)
    assert_close(losses, segment.losses, tolerances.FLOAT64, "losses")


def test_padding_and_foreign_documents_change_nothing():
    model = golden.load_golden("kim_memshort", "float64")
    segment = model.segments[0]
    tokens = segment.inputs[:1]
    plain = run_model(
        model.config, model.weights, tokens, None, model.initial_memory()
    )
    # Document 5, then padding scattered through what the file calls row 0.
    ids = [7, 8, 9]
    documents = [5, 5, 5]
    places = []
    for number, token in enumerate(tokens[0]):
        ids += [11] * (number % 3)
        documents += [PADDING] * (number % 3)
        places.append(len(ids))
        ids.append(int(token))
        documents.append(6)
    result = run_model(
        model.config,
        model.weights,
        np.array([ids]),
        np.array([documents]),
        empty_memory(1, *plain.memory["states"].shape[1:]),
    )
    assert_close(
        result.hidden[:, places],
        plain.hidden,
        tolerances.FLOAT64,
        "hidden states of the second document",
    )
    assert_close(
        result.memory["states"],
        plain.memory["states"],
        tolerances.FLOAT64,
        "memory of the second document",
    )
    assert result.memory["document"][0] == 6
