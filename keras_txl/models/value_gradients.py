"""Gradients of a loss at values that weights do not have, for each backend.

The weights of the model stay as they are; nothing has to be put back.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor


def compile_gradients(
    model: Any,
    loss: Callable[..., tuple[Tensor, Any]],
    use: Callable[..., Any],
) -> Callable[..., Any]:
    """Compile what is made of the gradients of a loss.

    Args:
        model: whose weights `loss` reads.
        loss: takes `*args`. Returns a scalar and whatever else is found on
            the way to it: a nested structure of tensors.
        use: takes `(values, gradients, found, *args)`, the gradients dense
            and in the order of `model.trainable_variables`.

    Returns:
        A function `run(values, *args)`. It gives what `use` returns, where
        the trainable variables of the model have these values.
    """
    makers = {
        "tensorflow": _compile_for_tensorflow,
        "jax": _compile_for_jax,
        "torch": _wrap_for_torch,
    }
    return makers[keras.backend.backend()](model, loss, use)


def trained_values(model: Any) -> list[Tensor]:
    """Copies of the trainable variables, in float32 at least."""
    return [
        ops.cast(
            ops.stop_gradient(ops.copy(variable.value)),
            keras.backend.result_type(variable.dtype, "float32"),
        )
        for variable in model.trainable_variables
    ]


def _compile_for_tensorflow(
    model: Any, loss: Callable[..., Any], use: Callable[..., Any]
) -> Callable[..., Any]:
    import tensorflow as tf

    trained = model.trainable_variables

    def run(values: list[Tensor], *args: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(values)
            with keras.StatelessScope(zip(trained, values, strict=True)):
                value, found = loss(*args)
        gradients = tape.gradient(value, values, unconnected_gradients="zero")
        # Gradients of tables may be sparse, with rows that come twice.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return use(values, dense, found, *args)

    if model.run_eagerly:
        return run
    compiled: Callable[..., Any] = tf.function(
        run, reduce_retracing=True, autograph=False
    )
    return compiled


def _compile_for_jax(
    model: Any, loss: Callable[..., Any], use: Callable[..., Any]
) -> Callable[..., Any]:
    import jax

    trained = model.trainable_variables
    others = model.non_trainable_variables

    def stateless(kept: list[Any], values: list[Tensor], *args: Any) -> Any:
        def value(values: list[Tensor]) -> tuple[Tensor, Any]:
            mapping = [
                *zip(trained, values, strict=True),
                *zip(others, kept, strict=True),
            ]
            with keras.StatelessScope(mapping):
                return loss(*args)

        gradients, found = jax.grad(value, has_aux=True)(values)
        return use(values, gradients, found, *args)

    compiled = stateless if model.run_eagerly else jax.jit(stateless)

    def run(*args: Any) -> Any:
        return compiled([variable.value for variable in others], *args)

    return run


def _wrap_for_torch(
    model: Any, loss: Callable[..., Any], use: Callable[..., Any]
) -> Callable[..., Any]:
    import torch

    trained = model.trainable_variables

    def run(values: list[Tensor], *args: Any) -> Any:
        values = [value.detach().requires_grad_() for value in values]
        with torch.enable_grad():
            with keras.StatelessScope(zip(trained, values, strict=True)):
                value, found = loss(*args)
        gradients = torch.autograd.grad(value, values, allow_unused=True)
        with torch.no_grad():
            dense = [
                ops.zeros_like(value) if gradient is None else gradient
                for value, gradient in zip(values, gradients, strict=True)
            ]
            found = keras.tree.map_structure(lambda x: x.detach(), found)
            return use(values, dense, found, *args)

    return run
