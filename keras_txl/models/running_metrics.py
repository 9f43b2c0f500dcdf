"""Running means of training that an evaluation within `fit` leaves alone.

Keras resets all metrics when an evaluation begins. Called by a callback in
the middle of an epoch, it would make the losses that `fit` reports those of
the evaluation, or of the batches since.
"""

import functools
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_txl.models.kept_variables import synchronize

Method = Callable[..., Any]


def marks_training(fit: Method) -> Method:
    """A method `fit` during which the model knows that it trains."""

    @functools.wraps(fit)
    def run(model: Any, *args: Any, **kwargs: Any) -> Any:
        model.__dict__["_trains"] = True
        try:
            return fit(model, *args, **kwargs)
        finally:
            model.__dict__["_trains"] = False

    return run


def keeps_running_metrics(evaluate: Method) -> Method:
    """A method `evaluate` that gives metrics back when it is called in `fit`.

    The validation of `fit` itself comes when an epoch has been reported.
    """

    @functools.wraps(evaluate)
    def run(model: Any, *args: Any, **kwargs: Any) -> Any:
        own = kwargs.get("_use_cached_eval_dataset", False)
        if own or not model.__dict__.get("_trains", False):
            return evaluate(model, *args, **kwargs)
        synchronize(model)
        kept = [
            (variable, ops.copy(variable.value))
            for variable in model.metrics_variables
        ]
        try:
            return evaluate(model, *args, **kwargs)
        finally:
            for variable, value in kept:
                variable.assign(value)

    return run
