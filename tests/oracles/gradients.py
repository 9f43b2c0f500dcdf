"""Gradients and compilation on every backend, for tests."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tests.tolerances import to_numpy


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` compiled on JAX, where calls of single operations are slow.

    Weights are constants of the compiled function: set them before.
    """
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def gradients_of(
    loss: Callable[[], Any], variables: Sequence[Any]
) -> list[np.ndarray]:
    """Gradients of `loss()` with respect to Keras variables.

    Variables that `loss` assigns keep their values on JAX only; a variable
    without a gradient gets zeros.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            value = loss()
        found = tape.gradient(
            value,
            [variable.value for variable in variables],
            unconnected_gradients="zero",
        )
        return [to_numpy(tf.convert_to_tensor(g)) for g in found]
    if backend == "torch":
        import torch

        found = torch.autograd.grad(
            loss(),
            [variable.value for variable in variables],
            allow_unused=True,
        )
        return [
            np.zeros(variable.shape) if g is None else to_numpy(g)
            for variable, g in zip(variables, found, strict=True)
        ]
    import jax

    def stateless(values: list[Any]) -> Any:
        pairs = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return loss()

    gradient = jax.jit(jax.grad(stateless))
    found = gradient([variable.value for variable in variables])
    return [to_numpy(g) for g in found]


def gradient_at(loss: Callable[[Any], Any], value: np.ndarray) -> np.ndarray:
    """Gradient of `loss(x)` with respect to its tensor, zeros if none."""
    backend = keras.backend.backend()
    x = ops.convert_to_tensor(value)
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            total = loss(x)
        return to_numpy(tape.gradient(total, x, unconnected_gradients="zero"))
    if backend == "torch":
        import torch

        x = x.clone().requires_grad_()
        total = loss(x)
        if not total.requires_grad:
            return np.zeros(value.shape)
        (found,) = torch.autograd.grad(total, [x], allow_unused=True)
        return np.zeros(value.shape) if found is None else to_numpy(found)
    import jax

    return to_numpy(jax.jit(jax.grad(loss))(x))
