"""Compiles a function of values for each backend, without keeping state."""

from collections.abc import Callable
from typing import Any

import keras


def compile_value_function(
    model: keras.Model, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Compile `function`, which reads the variables of `model` only.

    Args:
        model: the model whose methods `function` calls.
        function: takes and returns nested structures of tensors.

    Returns:
        A function of the same signature. Where its inputs are being traced
        already (inside the caller's own compiled function), it runs as is.
    """
    if model.run_eagerly:
        return function
    makers = {
        "tensorflow": _compile_for_tensorflow,
        "jax": _compile_for_jax,
        "torch": _wrap_for_torch,
    }
    maker = makers.get(keras.backend.backend())
    return function if maker is None else maker(model, function)


def _compile_for_tensorflow(
    model: keras.Model, function: Callable[..., Any]
) -> Callable[..., Any]:
    import tensorflow as tf

    compiled: Callable[..., Any] = tf.function(
        function, reduce_retracing=True, autograph=False
    )
    return compiled


def _compile_for_jax(
    model: keras.Model, function: Callable[..., Any]
) -> Callable[..., Any]:
    import jax

    @jax.jit
    def stateless(values: list[Any], *args: Any) -> Any:
        mapping = list(zip(model.variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return function(*args)

    def run(*args: Any) -> Any:
        values = [variable.value for variable in model.variables]
        leaves = jax.tree_util.tree_leaves((values, args))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return function(*args)
        return stateless(values, *args)

    return run


def _wrap_for_torch(
    model: keras.Model, function: Callable[..., Any]
) -> Callable[..., Any]:
    import torch

    def run(*args: Any) -> Any:
        with torch.no_grad():
            return function(*args)

    return run
