"""A function on PyTorch keeps its meaning as a graph of operations."""

import keras
import numpy as np
import pytest

from keras_txl.models.torch_graph import EAGER_CALLS
from keras_txl.models.torch_graph import as_torch_graph

pytestmark = pytest.mark.backend("torch")


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.compile()
    return model


def warm(run, *args):
    for _ in range(EAGER_CALLS):
        run(*args)


def test_a_graph_reads_the_weights_of_the_moment_and_writes_in_place(model):
    import torch

    calls = []

    def function(state):
        calls.append(1)
        written = state["rows"].index_copy_(0, state["slot"], model.weights[0])
        return {"rows": written, "slot": (state["slot"] + 2) % 4}

    run = as_torch_graph(model, function)
    state = {"rows": torch.zeros(4, 2), "slot": torch.tensor([0, 1])}
    with torch.no_grad():
        warm(run, state)
        run(state)
        model.set_weights([np.full((2, 2), 7.0), np.zeros(2)])
        rows = state["rows"]
        for _ in range(2):
            state = run(state)
    assert len(calls) == EAGER_CALLS + 1  # and the trace
    assert state["slot"].tolist() == [0, 1]
    assert state["rows"].data_ptr() == rows.data_ptr()
    assert rows.tolist() == [[7.0, 7.0]] * 4


def test_inputs_of_another_shape_have_a_graph_of_their_own(model):
    import torch

    run = as_torch_graph(model, lambda rows: rows + rows.shape[0])
    warm(run, torch.zeros(2))
    assert run(torch.zeros(2)).tolist() == [2, 2]
    assert run(torch.zeros(3)).tolist() == [3, 3, 3]


def test_a_function_that_asks_for_a_value_stays_as_it_is(model):
    import torch

    run = as_torch_graph(model, lambda x: x + 1 if x.item() else x)
    warm(run, torch.tensor(0))
    assert [int(run(torch.tensor(value))) for value in (0, 3)] == [0, 4]
