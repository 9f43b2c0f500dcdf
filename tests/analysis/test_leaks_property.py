"""The models of this package leak nothing, whatever the documents are."""

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_txl.analysis import check_isolation
from tests.tolerances import to_numpy

ROWS, TOKENS, SEGMENT = 2, 6, 2
WIDE = {
    "dtype": "float64",
    "memory_dtype": "float64",
    "memory_length": 3,
    "eval_memory_length": 2,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}


@pytest.fixture(scope="module", autouse=True)
def float64():
    """JAX has to be asked for 64 bits."""
    with contextlib.ExitStack() as stack:
        if os.environ["KERAS_BACKEND"] == "jax":
            import jax

            stack.enter_context(jax.enable_x64(True))
        yield


@pytest.fixture(scope="module")
def lm(make_lm, float64):
    return make_lm(**WIDE)


def assert_passes(report, reach):
    """All lines are there, and green."""
    assert report.passed, f"\n{report}"
    lines = {
        memory: [check for check in report.checks if check.memory == memory]
        for memory in ("value", "eval", "train")
    }
    for memory, slots in reach.items():
        (control,) = [
            check
            for check in lines[memory]
            if check.change == f"its own document, 1 to {slots} tokens back"
        ]
        assert control.control and control.threshold == 1e-9
    isolation = [c for c in report.checks if not c.control]
    assert {check.difference for check in isolation} == {0.0}


def test_every_memory_is_read_to_its_end_and_nothing_else_is(lm):
    lm.logits(np.array([[1, 2], [3, 4]]), training=True)
    lm.logits(np.array([[1, 2], [3, 4]]))
    before = [to_numpy(variable).copy() for variable in lm.variables]
    report = check_isolation(lm)
    assert_passes(report, {"value": 2 * 2, "eval": 2 * 2, "train": 2 * 3})
    # The model is as it was.
    for variable, value in zip(lm.variables, before, strict=True):
        np.testing.assert_array_equal(to_numpy(variable), value, variable.path)


@settings(max_examples=5)
@given(
    documents=arrays(
        "int32", (ROWS, TOKENS), elements=st.sampled_from([0, 0, 0, 1, 2, -1])
    ),
    seed=st.integers(0, 2**16),
)
def test_nothing_leaks_between_random_documents(lm, documents, seed):
    report = check_isolation(
        lm, documents, segment_length=SEGMENT, max_places=2, seed=seed
    )
    assert report.passed, f"\n{report}"


def test_models_whose_loss_is_deferred_are_checked(make_lm):
    deferred = make_lm(
        **{**WIDE, "memory_dropout": 0.5}, cutoffs=[5, 11], attention_window=3
    )
    report = check_isolation(deferred, segment_length=SEGMENT, max_places=3)
    assert_passes(report, {"value": 2 * 2, "eval": 2 * 2, "train": 2 * 2})


def test_weights_may_stay_as_they_are(lm):
    """Weights of zero read nothing: no leak, and no memory."""
    kept = [to_numpy(variable).copy() for variable in lm.trainable_variables]
    for variable in lm.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    report = check_isolation(
        lm, segment_length=SEGMENT, max_places=2, weight_scale=None
    )
    for variable, value in zip(lm.trainable_variables, kept, strict=True):
        variable.assign(value)
    assert all(check.passed != check.control for check in report.checks)
