"""How many steps, in which slices, at which learning rates.

The optimizer's schedules need the number of steps before anything is
compiled. A budget of minutes gives it only after some steps were timed, so
the rate is set for each slice of training instead. Given the number of steps
a run is the same each time, whatever the machine.
"""

import math
from dataclasses import dataclass
from dataclasses import replace

MEASURED_STEPS = 20
"""Steps that are trained, at a low rate, to learn how long a step takes."""

COMPILING_STEPS = 5
"""The first of them, left out of the timing."""

SLICES = 40
VALIDATIONS = 8
WARM_UP = 0.05  # of all slices
FIRST_RATE = 0.1  # of the highest rate, while steps are timed
LAST_RATE = 0.05  # of the highest rate, at the end of cosine and line

SCHEDULES = ("cosine", "linear", "inverse-square-root", "constant")
"""Courses of the learning rate after the warm-up."""

OPEN_SCHEDULES = ("inverse-square-root", "constant")
"""Those of them that do not depend on where the run ends."""


@dataclass(frozen=True)
class TrainingPlan:
    """The course of a training run; an epoch of `fit` is one slice.

    Args:
        steps: steps of the whole run, those that were timed included.
        learning_rate: highest learning rate.
        schedule: course of the rate after the warm-up, of `SCHEDULES`.
        warmup: share of the run until the highest rate.
        first_steps: steps of a run that was made longer, as it was begun:
            slices and warm-up are theirs. None: `steps`.
    """

    steps: int
    learning_rate: float
    schedule: str = "cosine"
    warmup: float = WARM_UP
    first_steps: int | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Steps of a slice; the last slice may be shorter."""
        return max(1, round((self.first_steps or self.steps) / SLICES))

    @property
    def epochs(self) -> int:
        """Number of slices."""
        return math.ceil(self.steps / self.steps_per_epoch)

    @property
    def validations(self) -> list[int]:
        """Slices, counted from 1, that end with a validation."""
        every = max(1, self.epochs // VALIDATIONS)
        chosen = set(range(every, self.epochs + 1, every)) | {self.epochs}
        return sorted(chosen)

    def rate(self, epoch: int) -> float:
        """Learning rate of a slice: linear warm-up, then the schedule.

        Args:
            epoch: number of the slice, counted from 0.

        Returns:
            The learning rate.
        """
        first_steps = self.first_steps or self.steps
        warm_up = round(
            self.warmup * math.ceil(first_steps / self.steps_per_epoch)
        )
        if self.warmup:  # at least one slice
            warm_up = max(1, warm_up)
        if epoch < warm_up:
            return self.learning_rate * (epoch + 1) / (warm_up + 1)
        if self.schedule == "constant":
            return self.learning_rate
        if self.schedule == "inverse-square-root":
            return self.learning_rate * ((warm_up + 1) / (epoch + 1)) ** 0.5
        left = 1 - (epoch - warm_up) / max(1, self.epochs - warm_up)
        if self.schedule == "cosine":
            left = (1 - math.cos(math.pi * left)) / 2
        return self.learning_rate * (LAST_RATE + (1 - LAST_RATE) * left)

    def longer(self, steps: int) -> "TrainingPlan":
        """The same course over more steps: what was done stays as it was.

        Args:
            steps: steps of the whole run.

        Returns:
            The new plan.

        Raises:
            ValueError: if these are fewer steps, or if the rates depend on
                where the run ends.
        """
        if steps < self.steps:
            raise ValueError(
                "A run cannot be made shorter. Received: --steps "
                f"{steps} for a run of {self.steps} steps. Leave --steps out."
            )
        if steps > self.steps and self.schedule not in OPEN_SCHEDULES:
            raise ValueError(
                "A run can be made longer only if its learning rates do not "
                f"depend on where it ends. Received: --steps {steps} for a "
                f"run of {self.steps} steps with --schedule {self.schedule}. "
                "Leave --steps out, or begin anew with --overwrite and "
                f"--schedule {' or '.join(OPEN_SCHEDULES)}."
            )
        first_steps = self.first_steps or self.steps
        return replace(self, steps=steps, first_steps=first_steps)


def needs_timing(steps: int | None, done: int = 0) -> bool:
    """Whether a run begins, or goes on, with steps that are timed.

    Args:
        steps: steps of the whole run. None: a time is given instead.
        done: steps done before.

    Returns:
        `False` for short runs: their plan has all their steps.
    """
    return steps is None or done < MEASURED_STEPS < steps


def steps_in(
    seconds: float, step_seconds: float, validation_seconds: float
) -> int:
    """Steps that fit in a time, with the validations of a run.

    Args:
        seconds: time for training and validation.
        step_seconds: time of a step.
        validation_seconds: time of one validation.

    Returns:
        Number of steps, at least one for each slice. Two digits are kept, so
        that a run can be repeated with a number easy to tell.
    """
    left = seconds - VALIDATIONS * validation_seconds
    steps = max(SLICES, int(left / step_seconds))
    unit = 10 ** max(0, len(str(steps)) - 2)
    return steps // unit * unit
