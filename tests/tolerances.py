"""Every tolerance of the tests, and the one way to compare.

A tolerance is absolute and relative at once: values pass when they differ by
at most `tolerance * max(1, |expected|)`.
"""

from typing import Any

import numpy as np

FLOAT64 = 1e-10
"""Two float64 computations of the same thing."""

FLOAT32 = 1e-5
"""Losses, memories and hidden states in float32 against a reference."""

GRADIENT = 1e-5
"""Gradients in float32 against a golden gradient."""

PRE_NORM_STATES = 1e-4
"""Hidden states of a pre-norm model with weights from N(0, 0.3): nothing
normalises the residual, so its values reach the tens."""

TRAINING_CURVE = 1e-4
"""Losses of a float32 training run of 60 steps against one in float64."""

BFLOAT16 = 2e-2
"""Losses computed in bfloat16 against float32."""

REORDERED = 1e-6
"""The same float32 numbers, summed in another order or number of zeros."""

EXACT = 0.0
"""Bit equality."""


def assert_close(
    actual: Any, expected: Any, tolerance: float, what: str
) -> None:
    """Fail unless two arrays have one shape and equal values.

    Args:
        actual: tensor or array under test.
        expected: tensor or array it should equal.
        tolerance: largest difference, in units of `max(1, |expected|)`.
        what: what is compared, for the message.
    """
    actual = to_numpy(actual)
    expected = to_numpy(expected)
    if actual.shape != expected.shape:
        raise AssertionError(
            f"{what}: shape {actual.shape}, expected {expected.shape}"
        )
    if actual.size == 0:
        return
    if not np.all(np.isfinite(expected)):
        raise AssertionError(f"{what}: the expected values are not finite")
    actual = actual.astype(np.float64)
    expected = expected.astype(np.float64)
    difference = np.abs(actual - expected) / np.maximum(1, np.abs(expected))
    # A NaN is larger than every tolerance.
    difference = np.where(np.isnan(difference), np.inf, difference)
    if difference.max() > tolerance:
        worst = np.unravel_index(difference.argmax(), difference.shape)
        wrong = int((difference > tolerance).sum())
        raise AssertionError(
            f"{what}: {wrong} of {difference.size} values differ by more "
            f"than {tolerance:g}. Worst at {tuple(map(int, worst))}: "
            f"{actual[worst]:.9g}, expected {expected[worst]:.9g}"
        )


def to_numpy(value: Any) -> np.ndarray:
    """A NumPy array from a tensor or variable of any backend."""
    if isinstance(value, np.ndarray | int | float | list | tuple):
        return np.asarray(value)
    from keras import ops

    # A variable warns when NumPy reads it on TensorFlow; a tensor does not.
    return ops.convert_to_numpy(ops.copy(value))
