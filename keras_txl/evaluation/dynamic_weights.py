"""Dynamic evaluation: a gradient step on each segment that has been scored.

Every token is scored before any step on it. The stepped weights are values of
their own; those of the model stay as they were trained.

Reference:
    Krause et al. 2018 (arXiv 1709.07432), section 4; Krause et al. 2019
    (arXiv 1904.08378) for Transformer-XL.
"""

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.evaluation.protocol import EvaluationProtocol


@dataclass(frozen=True)
class GradientScales:
    """How large the gradients of each weight are on a text.

    Args:
        root_mean_squares: an array for each trainable variable, in its shape.
        epsilon: added to them where a step is divided by them.
        told: what they were measured on, for the protocol line.
    """

    root_mean_squares: Sequence[np.ndarray]
    epsilon: float
    told: str


class DynamicWeights:
    """Weights that follow a text.

    With learning rate a and decay c, the gradient g of the mean loss of the
    tokens that count, and w0 as trained, a step is

        w - a g + c (w0 - w)

    or, with gradient scales s whose mean over all weights is m,

        w - a g / (s + epsilon) + min(c s / m, 1) (w0 - w)

    Args:
        lm: a `TransformerXLCausalLM`.
        protocol: has the learning rate and the decay.
        scales: `GradientScales` of the model, or `None`.

    Raises:
        ValueError: if no weight is trainable, or `scales` do not fit.
    """

    def __init__(
        self,
        lm: Any,
        protocol: EvaluationProtocol,
        scales: GradientScales | None = None,
    ) -> None:
        from keras import ops

        self._gradients = TokenGradients(lm, _stepped)
        self._values = trained = self._gradients.trained_values()
        rates, pulls = _rates_and_pulls(
            protocol.dynamic_learning_rate,
            protocol.dynamic_decay,
            scales,
            [tuple(value.shape) for value in trained],
        )
        self._rule = [
            (value, *(ops.cast(x, value.dtype) for x in both))
            for value, *both in zip(trained, rates, pulls, strict=True)
        ]

    def token_losses(
        self, inputs: Any, targets: Any, counted: Any, memory: Memory
    ) -> tuple[Tensor, Memory]:
        """As the method of the model, and then a step.

        Args:
            inputs: as in a call.
            targets: int ids of shape `(batch_size, segment_length)`.
            counted: bool array of that shape, tokens that are stepped on.
            memory: from `initial_memory` or an earlier call.

        Returns:
            Losses `(batch_size, segment_length)` in nats, of the weights
            before the step, and the memory after the segment.
        """
        losses, memory, self._values = self._gradients(
            self._values, inputs, targets, counted, memory, self._rule
        )
        return losses, memory


class TokenGradients:
    """Gradients of the mean loss of the tokens that count.

    Args:
        lm: a `TransformerXLCausalLM`. It is left as it is.
        change: takes values of the trainable variables, gradients and `state`;
            returns the new state.

    Call arguments:
        values: of the trainable variables.
        inputs: as in a call.
        targets: int ids of shape `(batch_size, segment_length)`.
        counted: bool array of that shape.
        memory: from `initial_memory` or an earlier call.
        state: nested structure of tensors.

    Returns:
        Losses `(batch_size, segment_length)` in nats at the values, the
        memory after the segment and the new state.

    Raises:
        ValueError: if no weight is trainable.
    """

    def __init__(self, lm: Any, change: Callable[..., Any]) -> None:
        if not lm.trainable_variables:
            raise ValueError(
                "Dynamic evaluation changes the trainable weights. Received: "
                "a model without. Set `trainable = True` on it."
            )
        self._lm = lm
        self._change = change

    def trained_values(self) -> list[Tensor]:
        """Copies of what the model was trained to."""
        from keras_txl.models.value_gradients import trained_values

        return trained_values(self._lm)

    def __call__(
        self,
        values: list[Tensor],
        inputs: Any,
        targets: Any,
        counted: Any,
        memory: Memory,
        state: Any,
    ) -> tuple[Tensor, Memory, Any]:
        from keras import ops

        from keras_txl.models.value_gradients import compile_gradients

        lm, change = self._lm, self._change

        def use(
            values: Any, gradients: Any, found: Any, *args: Any
        ) -> tuple[Tensor, Memory, Any]:
            return *found, change(values, gradients, args[-1])

        run = lm._value_function(
            (change, *map(id, lm.trainable_variables)),
            self._mean_loss,
            compile_gradients,
            use=use,
        )
        prepared = lm.normalize_for_losses(inputs, targets, memory)
        inputs, targets, memory = prepared
        counted = ops.convert_to_tensor(counted)
        return run(values, inputs, targets, counted, memory, state)

    def _mean_loss(
        self,
        inputs: Any,
        targets: Tensor,
        counted: Tensor,
        memory: Memory,
        _: Any,
    ) -> tuple[Tensor, tuple[Tensor, Memory]]:
        from keras import ops

        losses, memory = self._lm.losses_with_memory(inputs, targets, memory)
        weights = ops.cast(counted, losses.dtype)
        total = ops.sum(losses * weights)
        return total / ops.maximum(ops.sum(weights), 1), (losses, memory)


def _stepped(values: Any, gradients: Any, rule: Any) -> list[Tensor]:
    return [
        value - rate * gradient + pull * (trained - value)
        for value, gradient, (trained, rate, pull) in zip(
            values, gradients, rule, strict=True
        )
    ]


def _rates_and_pulls(
    learning_rate: Any,
    decay: float,
    scales: GradientScales | None,
    shapes: list[tuple[int, ...]],
) -> tuple[list[Any], list[Any]]:
    """Factors of the gradient and of the way back, for each variable."""
    if scales is None:
        return [learning_rate] * len(shapes), [decay] * len(shapes)
    found = scales.root_mean_squares
    if [scale.shape for scale in found] != shapes:
        raise ValueError(
            "`gradient_scales` must be those of the model. Received: scales "
            f"of {len(found)} variables, of other shapes than the "
            f"{len(shapes)} trainable ones. Measure them on this model."
        )
    mean = float(
        np.average([s.mean() for s in found], weights=[s.size for s in found])
    )
    return (
        [learning_rate / (scale + scales.epsilon) for scale in found],
        [np.minimum(decay * scale / mean, 1.0) for scale in found],
    )
