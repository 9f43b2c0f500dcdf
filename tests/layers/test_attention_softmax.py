"""Capped scores and the softmax behind them."""

import math

import numpy as np
import pytest
from keras import ops

from keras_txl.layers.attention_softmax import cap_logits
from keras_txl.layers.attention_softmax import masked_softmax
from tests import tolerances
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

SCORES = np.array([-1000.0, -3.0, -1e-3, 0.0, 0.5, 40.0], "float32")


def test_a_cap_bounds_scores_and_leaves_small_ones():
    capped = to_numpy(cap_logits(SCORES, 4.0))
    expected = [4.0 * math.tanh(score / 4.0) for score in SCORES]
    assert_close(capped, expected, tolerances.FLOAT32, "capped")
    assert np.abs(capped).max() <= 4.0
    assert_close(capped[2:4], SCORES[2:4], tolerances.FLOAT32, "small ones")


def test_without_a_cap_scores_are_what_they_are():
    assert cap_logits(SCORES, None) is SCORES


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cap_acts_before_the_mask(dtype):
    """A hidden key gets nothing, not the weight of the lowest score."""
    mask = np.array([True, True, False, True, True, False])
    scores = ops.cast(SCORES, dtype)
    weights = masked_softmax(scores, mask, logit_cap=2.0)
    assert weights.dtype == scores.dtype
    seen = 2.0 * np.tanh(SCORES[mask].astype("float64") / 2.0)
    expected = np.zeros(6)
    expected[mask] = np.exp(seen) / np.exp(seen).sum()
    tolerance = tolerances.FLOAT32 if dtype == "float32" else 1e-2
    assert_close(ops.cast(weights, "float32"), expected, tolerance, "weights")
    assert not to_numpy(ops.cast(weights, "float32"))[~mask].any()


@pytest.mark.parametrize("cap", [0, -1.0, True, "50", float("inf")])
def test_a_cap_that_is_no_positive_number_is_refused(make_lm, cap):
    with pytest.raises(ValueError, match="`attention_logit_cap` must be a num"):
        make_lm(attention_logit_cap=cap)
