"""Sizes that the command line refuses, in its own words."""

import argparse

import pytest

from keras_txl.cli.arguments import ascending_integers
from keras_txl.cli.arguments import check_model_size
from keras_txl.cli.arguments import positive_number
from keras_txl.cli.arguments import probability
from keras_txl.cli.arguments import temperature

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


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (ascending_integers, "6,5", "that ascend, such as 2000,10000"),
        (ascending_integers, "6,6", "Received: 6,6"),
        (ascending_integers, "6,x", "an integer of at least 1. Received: x"),
        (positive_number, "inf", "a finite number above 0. Received: inf"),
        (temperature, "inf", "a finite number of at least 0. Received: inf"),
        (temperature, "nan", "must be a number. Received: nan"),
        (probability, "0", "above 0 and at most 1. Received: 0"),
    ],
)
def test_what_must_hold_is_told(kind, text, told):
    with pytest.raises(argparse.ArgumentTypeError) as error:
        kind(text)
    assert told in str(error.value)


def test_the_ends_of_the_ranges_are_taken():
    assert ascending_integers("5,6") == (5, 6)
    assert (temperature("0"), probability("1")) == (0, 1)
