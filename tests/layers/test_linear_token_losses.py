"""Losses in chunks are those of all logits at once, and so are gradients."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_txl.layers.linear_token_losses import default_chunk
from keras_txl.layers.linear_token_losses import linear_token_losses
from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.gradients import gradients_of
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

TOKENS, HIDDEN, WIDTH, ROWS = 7, 4, 3, 9


def draw(seed, with_projection=True):
    rng = np.random.default_rng(seed)
    width = WIDTH if with_projection else HIDDEN
    shapes = {
        "hidden": (TOKENS, HIDDEN),
        "projection": (HIDDEN, WIDTH),
        "table": (ROWS, width),
        "bias": (ROWS,),
    }
    arrays = {
        name: rng.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }
    if not with_projection:
        arrays["projection"] = None
    return arrays, rng.integers(0, ROWS, TOKENS).astype("int32")


def dense_losses(arrays, targets):
    """With NumPy in float64, all logits at once."""
    hidden = arrays["hidden"].astype("float64")
    if arrays["projection"] is not None:
        hidden = hidden @ arrays["projection"]
    logits = hidden @ arrays["table"].T + arrays["bias"]
    sums = np.log(np.exp(logits).sum(axis=-1))
    return sums - logits[np.arange(len(targets)), targets]


@given(
    seed=st.integers(0, 2**16),
    chunk=st.sampled_from([1, 3, 7, 20]),
    with_projection=st.booleans(),
)
def test_chunks_do_not_change_the_losses(seed, chunk, with_projection):
    arrays, targets = draw(seed, with_projection)
    losses = linear_token_losses(**arrays, targets=targets, chunk=chunk)
    assert_close(
        losses, dense_losses(arrays, targets), tolerances.FLOAT32, "losses"
    )


@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_only_the_first_tokens_of_an_order_are_computed(count):
    arrays, targets = draw(1)
    order = np.array([4, 2, 6, 0, 1, 5, 3], "int32")
    chosen = np.isin(np.arange(TOKENS), order[:count])
    run = compiled(
        lambda count: linear_token_losses(
            **arrays,
            targets=targets,
            chunk=2,
            order=ops.convert_to_tensor(order),
            count=count,
        )
    )
    assert_close(
        run(ops.convert_to_tensor(count, "int32")),
        np.where(chosen, dense_losses(arrays, targets), 0),
        tolerances.FLOAT32,
        "losses",
    )


@pytest.mark.parametrize("count", [4, 7])
@pytest.mark.parametrize("with_projection", [True, False])
def test_gradients_are_those_of_all_logits_at_once(with_projection, count):
    arrays, targets = draw(2, with_projection)
    order = np.array([4, 2, 6, 0, 1, 5, 3], "int32")
    scale = np.linspace(-1, 2, TOKENS).astype("float32")
    mask = np.isin(np.arange(TOKENS), order[:count]).astype("float32")
    variables = {
        name: keras.Variable(array, name=name)
        for name, array in arrays.items()
        if array is not None
    }

    def values():
        return {
            name: ops.convert_to_tensor(variables[name].value)
            if name in variables
            else None
            for name in arrays
        }

    def chunked():
        losses = linear_token_losses(
            **values(),
            targets=targets,
            chunk=3,
            order=ops.convert_to_tensor(order),
            count=ops.convert_to_tensor(count, "int32"),
        )
        return ops.sum(losses * ops.convert_to_tensor(scale))

    def dense():
        given = values()
        hidden = given["hidden"]
        if given["projection"] is not None:
            hidden = ops.matmul(hidden, given["projection"])
        logits = ops.matmul(hidden, ops.transpose(given["table"]))
        losses = ops.sparse_categorical_crossentropy(
            targets, logits + given["bias"], from_logits=True
        )
        return ops.sum(losses * ops.convert_to_tensor(scale * mask))

    found = gradients_of(chunked, list(variables.values()))
    expected = gradients_of(dense, list(variables.values()))
    for name, ours, theirs in zip(variables, found, expected, strict=True):
        assert_close(ours, theirs, tolerances.FLOAT32, f"gradient of {name}")


def test_large_logits_lose_nothing():
    arrays, targets = draw(3)
    arrays["bias"] = arrays["bias"] + np.float32(3e4)
    arrays["bias"][0] = 0.0
    targets[:] = 0
    losses = to_numpy(linear_token_losses(**arrays, targets=targets, chunk=2))
    assert np.isfinite(losses).all() and (losses > 2e4).all()


def test_products_are_made_in_the_dtype_of_the_hidden_states():
    arrays, targets = draw(4)
    exact = dense_losses(arrays, targets)
    arrays["hidden"] = ops.cast(arrays["hidden"], "bfloat16")
    losses = linear_token_losses(**arrays, targets=targets, chunk=4)
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"
    error = np.abs(to_numpy(losses) - exact).max()
    assert 1e-5 < error < 0.1


def test_default_chunk_keeps_the_number_of_logits():
    assert default_chunk(267_735) * 267_735 <= 2**23
    assert default_chunk(10) == 1024
    assert default_chunk(10**9) == 16
