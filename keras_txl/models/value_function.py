"""Compiles a function of values for each backend, without keeping state."""

import functools
from collections.abc import Callable
from typing import Any

import keras


def compile_value_function(
    model: keras.Model,
    function: Callable[..., Any],
    overwrites_first: bool = False,
    jit_compile: bool = False,
) -> Callable[..., Any]:
    """Compile `function`, which reads the variables of `model` only.

    Args:
        model: the model whose methods `function` calls.
        function: takes and returns nested structures of tensors.
        overwrites_first: bool. Whether JAX may use the memory of the first
            argument, which is lost, for the results.
        jit_compile: bool. Whether TensorFlow uses XLA, which compiles anew
            for each shape. JAX always does.

    Returns:
        A function of the same signature. Where its inputs are being traced
        already (inside the caller's own compiled function), it runs as is.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        return _wrap_for_torch(function)
    if model.run_eagerly:
        return function
    if backend == "jax":
        return _compile_for_jax(model, function, overwrites_first)
    return _compile_for_tensorflow(function, jit_compile)


def _compile_for_tensorflow(
    function: Callable[..., Any], jit_compile: bool
) -> Callable[..., Any]:
    import tensorflow as tf

    compiled: Callable[..., Any] = tf.function(
        function,
        reduce_retracing=not jit_compile,
        autograph=False,
        jit_compile=jit_compile or None,
    )
    return compiled


def _compile_for_jax(
    model: keras.Model, function: Callable[..., Any], overwrites_first: bool
) -> Callable[..., Any]:
    import jax

    @functools.partial(jax.jit, donate_argnums=(1,) if overwrites_first else ())
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


def _wrap_for_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    def run(*args: Any) -> Any:
        with torch.no_grad():
            return function(*args)

    return run
