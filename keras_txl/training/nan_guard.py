"""Stops training at the first number that is not finite, and says where."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.models.value_function import compile_value_function
from keras_txl.training.compiled_for_model import CompiledForModel
from keras_txl.training.step_before import StepBefore


class NaNGuard(keras.callbacks.Callback):
    """Stops `fit` with an error that names layer and step.

    After a step it looks at what the step made, in the order in which it was
    made: memory (the inputs of each layer, so the first bad one shows the
    layer in front of it), loss, weights. Weights that are bad behind a finite
    loss tell of bad gradients. `global_clipnorm` or a loss scale mix the
    gradients of all layers, so that one spoils all weights at once; with
    `batch_at` the guard computes the gradients of that step again, from the
    weights before it, and names the layer that had the first bad one.

    The loss is looked at after each step, which costs nothing, the rest after
    each `every_steps`: that reads all weights once. `batch_at` costs a copy of
    weights and memory after each step. Put the guard in front of callbacks
    that save.

    Args:
        every_steps: int. Steps from one look at weights and memory to the
            next.
        batch_at: function of an epoch and a step in it, both counted from 0,
            that returns the batch trained there, `(inputs, targets)` or
            `(inputs, targets, sample_weight)`. For a `TransformerXLCausalLM`
            and with `every_steps=1` alone.

    Raises:
        FloatingPointError: from `fit`, with the model as the bad step left
            it.
        ValueError: if `batch_at` is given together with other steps, or by
            `fit` with a model of another kind.

    Example:

    ```python
    guard = NaNGuard(batch_at=lambda epoch, step: stream.segment(step, epoch))
    lm.fit(stream, epochs=2, callbacks=[guard])
    ```
    """

    def __init__(
        self,
        every_steps: int = 1,
        batch_at: Callable[[int, int], Any] | None = None,
    ) -> None:
        super().__init__()
        self.every_steps = check_integer("every_steps", every_steps, 1)
        if batch_at is not None and every_steps != 1:
            raise ValueError(
                "`batch_at` needs a look after each step. Received: "
                f"every_steps={every_steps}. Leave one of them out."
            )
        self.batch_at = batch_at
        self._before = StepBefore()
        self._finite = CompiledForModel(compile_finite)
        # Steps of the epoch that are known to be good, once it has begun.
        self._checked: int | None = None
        self._epoch = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if self.batch_at is not None and not hasattr(
            self.model, "token_losses"
        ):
            raise ValueError(
                "`batch_at` needs a `TransformerXLCausalLM`. Received: "
                f"{type(self.model).__name__}. Leave it out."
            )
        self._look("Before the first step", None)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        self._epoch = epoch
        self._checked = None

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        if self._checked is None:
            self._checked = batch
        if self.batch_at is not None:
            self._before.keep(self.model)

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        checked, steps = self._checked or 0, batch + 1
        loss = (logs or {}).get("loss")
        bad_loss = loss is not None and not math.isfinite(loss)
        if bad_loss or steps - checked >= self.every_steps:
            span = f"step {steps}"
            if steps - checked > 1:
                span = f"steps {checked + 1} to {steps}"
            self._look(f"In {span} of epoch {self._epoch + 1}", loss, batch)
            self._checked = steps

    def _first_gradient(self, step: int) -> str:
        """What is known of the gradients of a step."""
        if self.batch_at is None or step != self._checked:
            return ""  # one call may stand for several steps
        batch = self.batch_at(self._epoch, step)
        return describe_gradients(self._before.bad_gradients(self.model, batch))

    def _look(self, when: str, loss: float | None, step: int = -1) -> None:
        model = self.model
        weights = model.trainable_variables
        if not weights:
            return
        finite = ops.convert_to_numpy(self._finite(model)()).tolist()
        bad = [v.path for v, good in zip(weights, finite) if not good]
        where = describe(bad, finite[len(weights) :], loss)
        if where is not None:
            if bad and loss is not None and math.isfinite(loss):
                where += self._first_gradient(step)
            raise FloatingPointError(
                f"Numbers must stay finite. Received: {when}, {where}. Lower "
                "the learning rate, clip gradients, or use bfloat16 or "
                "float32 instead of float16."
            )


def describe_gradients(bad: list[str]) -> str:
    """Say which gradient was the first not to be finite.

    Args:
        bad: paths of the weights with such a gradient, in the order of the
            layers. Gradients are made from the last layer to the first.

    Returns:
        The text, empty if none is bad.
    """
    if not bad:
        return ""
    layer = bad[-1].split("/")[0]
    among = [path for path in bad if path.split("/")[0] == layer]
    return (
        f": going back from the loss, {layer} is the first whose gradients "
        f"are not finite ({', '.join(among)})"
    )


def compile_finite(model: Any) -> Callable[[], Tensor]:
    """Compile a look at weights and then memories: bools, one entry each."""
    memories = [
        memory.train_states
        for memory in getattr(model, "segment_memories", ())
        if memory.batch_size is not None and memory.memory_length
    ]
    variables = [*model.trainable_variables, *memories]

    def finite() -> Tensor:
        return ops.stack(
            [ops.all(ops.isfinite(variable.value)) for variable in variables]
        )

    return compile_value_function(model, finite)


def describe(
    bad_weights: list[str], finite_memories: list[bool], loss: float | None
) -> str | None:
    """Say what was the first not to be finite.

    Args:
        bad_weights: paths of weights that are not finite.
        finite_memories: for each layer whether its memory is finite.
        loss: the loss, if there is one yet.

    Returns:
        The text, or `None` if all is finite.
    """
    bad_loss = loss is not None and not math.isfinite(loss)
    if loss is not None and not all(finite_memories):
        layer = finite_memories.index(False)
        origin = "the embedding" if layer == 0 else f"layer {layer - 1}"
        return (
            f"the memory of layer {layer} is the first that is not finite: "
            f"{origin} made it"
        )
    if bad_loss:
        return (
            f"the loss is {loss}, and no memory shows why: the last layer or "
            "the output head made it"
        )
    if bad_weights:
        made = "" if loss is None else ", made by its gradient"
        more = len(bad_weights) - 1
        also = f" and {more} more" if more else ""
        return f"the weight {bad_weights[0]}{also} is not finite{made}"
    if not all(finite_memories):
        layer = finite_memories.index(False)
        return f"the memory of layer {layer} is not finite"
    return None
