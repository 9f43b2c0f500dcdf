"""Variables that training and evaluation on JAX do not lose."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras


def synchronize(model: Any) -> None:
    """Give variables what training on JAX keeps apart from them."""
    jax_state_sync = getattr(model, "jax_state_sync", None)
    if jax_state_sync is not None:
        jax_state_sync()


@contextmanager
def kept_variables(model: Any) -> Iterator[None]:
    """Variables that survive an error.

    On JAX the trainer takes all variables away before the first batch and
    does not give them back if that batch fails, nor, in an evaluation, if
    a later one does.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [
        *model.variables,
        *(optimizer.variables if optimizer else ()),
    ]
    kept = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        lost = [pair for pair in kept if not _is_readable(pair[0])]
        if any(value.is_deleted() for _, value in lost):
            synchronize(model)  # a step has used them up
        for variable, value in lost:
            if not _is_readable(variable):
                variable.assign(value)
        raise


def _is_readable(variable: keras.Variable) -> bool:
    try:
        return variable.value is not None
    except TypeError:  # taken away: Keras tries to initialize it anew
        return False
