"""The similarity of heads against a loop over pairs of heads."""

import numpy as np
import pytest

from keras_txl.layers.head_similarity import head_similarity
from tests import tolerances
from tests.oracles.gradients import gradient_at
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


def mean_cosine(heads, valid):
    """Over all ordered pairs of heads; tokens that do not count add 0."""
    cosines = []
    for token in heads[valid].astype("float64"):
        for one in token:
            for other in token:
                lengths = np.linalg.norm(one) * np.linalg.norm(other)
                cosines.append(one @ other / lengths)
    return np.sum(cosines) / (valid.size * heads.shape[-2] ** 2)


@pytest.mark.parametrize("num_heads", [1, 2, 5])
def test_similarity_equals_the_loop_over_pairs(num_heads):
    rng = np.random.default_rng(num_heads)
    heads = rng.normal(size=(3, 4, num_heads, 6)).astype("float32")
    valid = rng.random((3, 4)) < 0.6
    assert_close(
        head_similarity(heads, valid),
        mean_cosine(heads, valid),
        tolerances.FLOAT32,
        "similarity",
    )


def test_equal_heads_count_1_and_orthogonal_ones_their_share():
    equal = np.ones((1, 2, 4, 3), "float32")
    valid = np.ones((1, 2), bool)
    assert_close(head_similarity(equal, valid), 1, tolerances.FLOAT32, "equal")
    apart = 7 * np.eye(4, dtype="float32")[None, None]
    assert_close(
        head_similarity(apart, valid[:, :1]), 1 / 4, tolerances.FLOAT32, "apart"
    )


def test_tokens_that_do_not_count_add_nothing():
    """Not even heads of length 0, whose direction has no derivative."""
    heads = np.random.default_rng(0).normal(size=(1, 3, 2, 4))
    heads = heads.astype("float32")
    heads[0, 2] = 0
    valid = np.array([[True, True, False]])
    alone = head_similarity(heads[:, :2], valid[:, :2])
    assert_close(
        3 * head_similarity(heads, valid),
        2 * alone,
        tolerances.FLOAT32,
        "similarity",
    )
    gradient = gradient_at(lambda x: head_similarity(x, valid), heads)
    assert np.abs(gradient[0, :2]).max() > 1e-3
    assert not gradient[0, 2].any()
    none = head_similarity(heads, np.zeros((1, 3), bool))
    assert to_numpy(none) == 0
