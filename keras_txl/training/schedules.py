"""Learning rates that rise along a warm-up and fall after it.

A schedule knows nothing but the number of steps its optimizer has done, so a
run that is resumed with its optimizer goes on at the right rate. With gradient
accumulation Keras counts segments, not changes of the weights.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_positive


def warmup_cosine_decay(
    learning_rate: float,
    total_steps: int,
    warmup_steps: int = 0,
    floor: float = 0.0,
) -> Any:
    """A linear warm-up, then half a cosine down to a floor: Keras' own.

    The rate after t steps is `learning_rate * t / warmup_steps` in the warm-up
    and then `learning_rate * (floor + (1 - floor) * (1 + cos(pi * p)) / 2)`,
    where p is the share done of the steps after the warm-up.

    Args:
        learning_rate: float. The highest rate.
        total_steps: int. Steps of the run, the warm-up included; the floor is
            reached there and kept.
        warmup_steps: int. Steps until the highest rate.
        floor: float in [0, 1). Share of the highest rate that is left at the
            end. The released TensorFlow code has 0.004.

    Returns:
        A `keras.optimizers.schedules.CosineDecay`.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> rate = warmup_cosine_decay(0.1, total_steps=30, warmup_steps=10)
    >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 20, 30, 99)]
    [0.0, 0.05, 0.1, 0.05, 0.0, 0.0]
    """
    learning_rate = check_positive("learning_rate", learning_rate)
    decay_steps = _decay_steps(total_steps, warmup_steps)
    floor = check_fraction("floor", floor)
    if warmup_steps == 0:
        return keras.optimizers.schedules.CosineDecay(
            learning_rate, decay_steps, alpha=floor
        )
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps,
        alpha=floor,
        warmup_target=learning_rate,
        warmup_steps=warmup_steps,
    )


class _WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """`learning_rate * t / warmup_steps`, then what `decayed` says."""

    learning_rate: float
    warmup_steps: int

    def __call__(self, step: Any) -> Tensor:
        step = ops.cast(step, "float32")
        factor = self.decayed(step)
        if self.warmup_steps:
            rising = step / self.warmup_steps
            factor = ops.where(step < self.warmup_steps, rising, factor)
        return self.learning_rate * factor

    def decayed(self, step: Tensor) -> Tensor:
        """Share of the highest rate after the warm-up."""
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="keras_txl")
class WarmupLinearDecay(_WarmupSchedule):
    """A linear warm-up, then a straight line down to a floor.

    Args:
        learning_rate: float. The highest rate.
        total_steps: int. Steps of the run, the warm-up included; the floor is
            reached there and kept.
        warmup_steps: int. Steps until the highest rate.
        floor: float in [0, 1). Share of the highest rate that is left at the
            end.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> rate = WarmupLinearDecay(0.1, total_steps=30, warmup_steps=10)
    >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 20, 30, 99)]
    [0.0, 0.05, 0.1, 0.05, 0.0, 0.0]
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        warmup_steps: int = 0,
        floor: float = 0.0,
    ) -> None:
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.decay_steps = _decay_steps(total_steps, warmup_steps)
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.floor = check_fraction("floor", floor)

    def decayed(self, step: Tensor) -> Tensor:
        done = ops.minimum((step - self.warmup_steps) / self.decay_steps, 1.0)
        return 1 - (1 - self.floor) * done

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "floor": self.floor,
        }


@keras.saving.register_keras_serializable(package="keras_txl")
class WarmupInverseSquareRootDecay(_WarmupSchedule):
    """A linear warm-up, then the inverse square root of the steps.

    After the warm-up the rate is `learning_rate * sqrt(warmup_steps / t)`
    after t steps: it needs no length of the run.

    Args:
        learning_rate: float. The highest rate, at the end of the warm-up. The
            released code is told this times `sqrt(warmup_steps)`.
        warmup_steps: int. Steps until the highest rate, at least 1.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> rate = WarmupInverseSquareRootDecay(0.1, warmup_steps=10)
    >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 40)]
    [0.0, 0.05, 0.1, 0.05]

    Reference:
        Vaswani et al. 2017 (arXiv 1706.03762), section 5.3.
    """

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.warmup_steps = check_integer("warmup_steps", warmup_steps, 1)

    def decayed(self, step: Tensor) -> Tensor:
        return ops.sqrt(self.warmup_steps / ops.maximum(step, 1.0))

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "warmup_steps": self.warmup_steps,
        }


def _decay_steps(total_steps: int, warmup_steps: int) -> int:
    check_integer("warmup_steps", warmup_steps, 0)
    check_integer("total_steps", total_steps, 1)
    if warmup_steps >= total_steps:
        raise ValueError(
            "`total_steps` must be more than `warmup_steps`, which they "
            f"include. Received: total_steps={total_steps}, "
            f"warmup_steps={warmup_steps}. Use a shorter warm-up."
        )
    return total_steps - warmup_steps
