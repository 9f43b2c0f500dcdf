"""Slices, validations and learning rates of a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.cli.training_plan import LAST_RATE
from keras_txl.cli.training_plan import MEASURED_STEPS
from keras_txl.cli.training_plan import OPEN_SCHEDULES
from keras_txl.cli.training_plan import SCHEDULES
from keras_txl.cli.training_plan import VALIDATIONS
from keras_txl.cli.training_plan import TrainingPlan
from keras_txl.cli.training_plan import needs_timing
from keras_txl.cli.training_plan import steps_in

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


@given(st.integers(1, 10**6))
def test_the_slices_hold_every_step(steps):
    plan = TrainingPlan(steps, 1.0)
    assert (plan.epochs - 1) * plan.steps_per_epoch < steps
    assert plan.epochs * plan.steps_per_epoch >= steps


@given(st.integers(1, 10**5))
def test_the_run_ends_with_a_validation(steps):
    plan = TrainingPlan(steps, 1.0)
    assert plan.validations[-1] == plan.epochs
    assert len(plan.validations) <= 2 * VALIDATIONS


@given(st.integers(1, 10**5))
def test_rates_stay_between_zero_and_the_highest(steps):
    plan = TrainingPlan(steps, 0.5)
    rates = [plan.rate(epoch) for epoch in range(plan.epochs)]
    assert all(0 < rate <= 0.5 for rate in rates)


def test_rates_rise_and_fall():
    plan = TrainingPlan(4000, 1.0)
    rates = [plan.rate(epoch) for epoch in range(plan.epochs)]
    highest = rates.index(max(rates))
    assert rates[: highest + 1] == sorted(rates[: highest + 1])
    assert rates[highest:] == sorted(rates[highest:], reverse=True)
    assert max(rates) == pytest.approx(1.0)
    assert rates[-1] < 2 * LAST_RATE


def rates(**choices):
    """Rates of a run of 40 slices, the warm-up of which are 8."""
    plan = TrainingPlan(4000, 0.5, **{"warmup": 0.2, **choices})
    return [plan.rate(epoch) for epoch in range(plan.epochs)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_schedule_rises_along_the_warm_up(schedule):
    rising = [0.5 * slices / 9 for slices in range(1, 10)]
    assert rates(schedule=schedule)[:9] == pytest.approx(rising)
    assert rates(schedule=schedule, warmup=0.0)[0] == 0.5


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        ("constant", lambda slices: 0.5),
        ("linear", lambda slices: 0.5 - 0.5 * 0.95 * (slices - 8) / 32),
        ("inverse-square-root", lambda slices: 0.5 * (9 / (slices + 1)) ** 0.5),
        (
            "cosine",
            lambda slices: (
                0.025 + 0.475 * math.cos(math.pi * (slices - 8) / 64) ** 2
            ),
        ),
    ],
)
def test_each_schedule_has_its_course(schedule, formula):
    expected = [formula(slices) for slices in range(8, 40)]
    assert rates(schedule=schedule)[8:] == pytest.approx(expected)


@given(
    st.integers(1, 2000),
    st.integers(0, 3000),
    st.sampled_from(OPEN_SCHEDULES),
    st.sampled_from([0.0, 0.05, 0.3]),
)
def test_a_longer_run_leaves_what_was_done(steps, more, schedule, warmup):
    plan = TrainingPlan(steps, 1.0, schedule, warmup)
    longer = plan.longer(steps + more)
    assert longer.steps_per_epoch == plan.steps_per_epoch
    assert longer.epochs * longer.steps_per_epoch >= steps + more
    done = range(plan.epochs)
    assert [longer.rate(e) for e in done] == [plan.rate(e) for e in done]
    assert len(longer.validations) <= 2 * VALIDATIONS
    again = longer.longer(steps + more + 1)
    assert again == plan.longer(steps + more + 1)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_run_whose_rates_end_with_it_keeps_its_length(schedule):
    plan = TrainingPlan(30, 1.0, schedule)
    assert plan.longer(30).steps == 30
    with pytest.raises(ValueError, match="or begin anew with --overwrite"):
        plan.longer(31)
    with pytest.raises(ValueError, match="cannot be made shorter"):
        plan.longer(29)


def test_short_runs_are_not_timed():
    assert needs_timing(None) and needs_timing(MEASURED_STEPS + 1)
    assert not needs_timing(MEASURED_STEPS)
    assert not needs_timing(600, done=MEASURED_STEPS)


def test_steps_fill_the_time_that_validations_leave():
    assert steps_in(100, 0.1, 0.0) == 1000
    assert steps_in(100 + 8 * 5, 0.1, 5) == 1000


def test_steps_are_told_with_two_digits():
    assert steps_in(123.456, 0.1, 0) == 1200


def test_there_is_always_something_to_train():
    assert steps_in(-5, 0.1, 1) == 40
