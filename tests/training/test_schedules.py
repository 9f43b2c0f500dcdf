"""Learning rates against formulas in plain Python."""

import math

import keras
import pytest

from keras_txl.training import WarmupInverseSquareRootDecay
from keras_txl.training import WarmupLinearDecay
from keras_txl.training import make_optimizer
from keras_txl.training import warmup_cosine_decay
from tests.tolerances import REORDERED
from tests.tolerances import assert_close

STEPS = [0, 1, 2, 6, 7, 8, 9, 50, 56, 57, 58, 99, 100, 101, 5000, 2**20]


def cosine(step, peak, total, warmup, floor):
    if step < warmup:
        return peak * step / warmup
    part = min(1.0, (step - warmup) / (total - warmup))
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * part)) / 2)


def linear(step, peak, total, warmup, floor):
    if step < warmup:
        return peak * step / warmup
    part = min(1.0, (step - warmup) / (total - warmup))
    return peak + (floor * peak - peak) * part


def inverse_square_root(step, peak, warmup):
    if step < warmup:
        return peak * step / warmup
    return peak * (step / warmup) ** -0.5


CASES = [
    (warmup_cosine_decay, cosine, (0.3, 100, 8, 0.0)),
    (warmup_cosine_decay, cosine, (0.3, 100, 0, 0.25)),
    (warmup_cosine_decay, cosine, (2.5e-4, 101, 7, 0.004)),
    (WarmupLinearDecay, linear, (0.3, 100, 8, 0.0)),
    (WarmupLinearDecay, linear, (0.3, 100, 0, 0.0)),
    (WarmupLinearDecay, linear, (2.5e-4, 101, 7, 0.1)),
    (WarmupInverseSquareRootDecay, inverse_square_root, (0.3, 8)),
    (WarmupInverseSquareRootDecay, inverse_square_root, (2.5e-4, 1)),
]


@pytest.mark.parametrize(("make", "formula", "arguments"), CASES)
def test_a_schedule_equals_its_formula(make, formula, arguments):
    schedule, peak = make(*arguments), arguments[0]
    for step in STEPS:
        assert_close(
            schedule(step) / peak,
            formula(step, *arguments) / peak,
            REORDERED,
            f"rate after {step} steps",
        )


@pytest.mark.parametrize(("make", "formula", "arguments"), CASES[2:8:2])
def test_a_schedule_comes_back_inside_an_optimizer(make, formula, arguments):
    """Also from its count of steps alone, as in a run that is resumed."""
    optimizer = keras.optimizers.deserialize(
        keras.optimizers.serialize(make_optimizer("adamw", make(*arguments)))
    )
    for step in (3, 60):
        optimizer.iterations.assign(step)
        assert_close(
            optimizer.learning_rate,
            formula(step, *arguments),
            REORDERED,
            f"rate after {step} steps",
        )


@pytest.mark.parametrize("make", [warmup_cosine_decay, WarmupLinearDecay])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warmup_steps": 10}, "Use a shorter warm-up"),
        ({"warmup_steps": -1}, "`warmup_steps` must be an integer"),
        ({"total_steps": 2.5}, "`total_steps` must be an integer"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a number above 0"),
        ({"floor": 1.0}, r"`floor` must be a number in \[0, 1\)"),
    ],
)
def test_arguments_out_of_range_are_refused(make, changes, message):
    arguments = {"learning_rate": 0.1, "total_steps": 10, "warmup_steps": 2}
    with pytest.raises(ValueError, match=message):
        make(**{**arguments, **changes})


def test_an_inverse_square_root_needs_a_warm_up():
    with pytest.raises(ValueError, match="`warmup_steps` must be an integer"):
        WarmupInverseSquareRootDecay(0.1, warmup_steps=0)
