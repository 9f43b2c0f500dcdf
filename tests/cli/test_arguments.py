"""Sizes that the command line refuses, in its own words."""

import argparse

import pytest

from keras_txl.cli.arguments import check_model_size

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


@pytest.mark.parametrize(
    ("width", "heads", "told"),
    [
        (100, 8, "Use --hidden-dim 96 or 104,"),
        (9, 3, "Use --hidden-dim 6 or 12,"),
        (3, 4, "Use --hidden-dim 4,"),
    ],
)
def test_a_width_that_does_not_suit_the_heads(width, heads, told):
    options = argparse.Namespace(hidden_dim=width, num_heads=heads)
    with pytest.raises(ValueError, match="divisible by --num-heads") as error:
        check_model_size(options)
    assert told in str(error.value)
    assert f"--hidden-dim {width}, --num-heads {heads}." in str(error.value)


@pytest.mark.parametrize(("width", "heads"), [(8, 4), (6, 3), (2, 1)])
def test_a_width_that_suits_the_heads(width, heads):
    check_model_size(argparse.Namespace(hidden_dim=width, num_heads=heads))
