"""The gradient of a segment with respect to the memory before it.

Axes: B rows, L layers, M memory slots, D hidden width.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.analysis.memory_paths import to_float64


def memory_gradient(lm: Any, inputs: Any, memory: Memory) -> np.ndarray:
    """Gradient `(B, L, M, D)` that flows from a segment into its memory.

    What the segment returns, hidden states and new memory, is summed up as
    squares. The sum of the states themselves is added and taken off again, so
    that a gradient that cannot be computed at all is an error, not a zero.

    Args:
        lm: a `TransformerXLCausalLM`.
        inputs: as in a call.
        memory: memory value before the segment.

    Returns:
        Array of zeros, unless the model differentiates through memory.
    """

    def objective(states: Tensor) -> Tensor:
        hidden, new = lm.backbone.call_with_memory(
            inputs, {**memory, "states": states}, training=True
        )
        squares = ops.cast(ops.sum(ops.square(hidden)), states.dtype)
        return squares + ops.sum(ops.square(new["states"])) + ops.sum(states)

    makers: dict[str, Callable[..., Tensor]] = {
        "tensorflow": _gradient_in_tensorflow,
        "jax": _gradient_in_jax,
        "torch": _gradient_in_torch,
    }
    states = ops.convert_to_tensor(memory["states"])
    gradient = makers[keras.backend.backend()](objective, states)
    return to_float64(gradient) - 1.0


def _gradient_in_tensorflow(
    objective: Callable[[Tensor], Tensor], states: Tensor
) -> Tensor:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(states)
        value = objective(states)
    return tape.gradient(value, states)


def _gradient_in_jax(
    objective: Callable[[Tensor], Tensor], states: Tensor
) -> Tensor:
    import jax

    return jax.grad(objective)(states)


def _gradient_in_torch(
    objective: Callable[[Tensor], Tensor], states: Tensor
) -> Tensor:
    import torch

    states = states.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(states), [states])
    return gradient
