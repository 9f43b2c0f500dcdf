"""The ways in which a model reads a stream, as token losses in NumPy.

Each path keeps its own memory: a value, or one of the two banks. The banks
are reached through the compiled call, as `fit` and `evaluate` reach them.

Axes: B rows, T segment, M memory slots, L layers, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor


class ValuePath:
    """Memory as a value, through `token_losses`."""

    name = "value"

    def __init__(self, lm: Any, rows: int) -> None:
        memory = lm.backbone.memory_layers[0]
        self.lm = lm
        self.rows = rows
        self.slots = memory.slots(False) or memory.slots(True)
        self.reach = visible_slots(lm, self.slots, training=False)
        self.memory: Memory = {}

    def start(self) -> None:
        """Begin new streams."""
        self.memory = self.lm.initial_memory(self.rows, self.slots)

    def losses(self, inputs: dict[str, Any], targets: Any) -> np.ndarray:
        """Losses `(B, T)` in nats of the next segment."""
        losses, self.memory = self.lm.token_losses(inputs, targets, self.memory)
        return to_float64(losses)


class BankPath:
    """Memory in a bank of the model, through its call."""

    def __init__(
        self, lm: Any, bank: str, call: Callable[[dict[str, Any], bool], Any]
    ) -> None:
        self.lm = lm
        self.name = bank
        self.training = bank == "train"
        slots = lm.backbone.memory_layers[0].slots(self.training)
        self.reach = visible_slots(lm, slots, self.training)
        self.call = call

    def start(self) -> None:
        """Begin new streams."""
        self.lm.reset_memory(self.name)

    def losses(self, inputs: dict[str, Any], targets: Any) -> np.ndarray:
        """Losses `(B, T)` in nats of the next segment."""
        scores = to_float64(self.call(inputs, self.training))  # (B, T, V)
        top = scores.max(axis=-1, keepdims=True)
        total = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
        chosen = np.take_along_axis(scores, targets[..., None], axis=-1)
        return total - chosen[..., 0]


def visible_slots(lm: Any, slots: int, training: bool) -> int:
    """Memory slots that the first token of a segment sees."""
    window = lm.backbone.attention_mask.window(slots, training)
    return slots if window is None else min(slots, int(window) - 1)


def to_float64(values: Tensor) -> np.ndarray:
    """An array of float64, whatever the backend and the width."""
    if keras.backend.standardize_dtype(values.dtype) != "float64":
        values = ops.cast(values, "float32")  # NumPy has no bfloat16
    return np.asarray(ops.convert_to_numpy(values), "float64")


def compiled_logits(lm: Any) -> Callable[[dict[str, Any], bool], Any]:
    """`lm.logits(inputs, training)` compiled, memory banks advancing."""
    makers = {"tensorflow": _compile_for_tensorflow, "jax": _compile_for_jax}
    maker = makers.get(keras.backend.backend())
    if maker is None or lm.run_eagerly:
        return lm.logits
    # Kept with the model: to compile takes longer than all the rest.
    key = tuple(map(id, lm.variables))
    compiled = lm.__dict__.setdefault("_compiled_logits", {})
    if key not in compiled:
        compiled[key] = maker(lm)
    return compiled[key]


def _compile_for_tensorflow(
    lm: Any,
) -> Callable[[dict[str, Any], bool], Any]:
    import tensorflow as tf

    compiled: Any = tf.function(lm.logits, autograph=False)
    return lambda inputs, training: compiled(
        {name: tf.constant(value) for name, value in inputs.items()}, training
    )


def _compile_for_jax(lm: Any) -> Callable[[dict[str, Any], bool], Any]:
    import jax

    def stateless(values: list[Any], inputs: Any, training: bool) -> Any:
        mapping = list(zip(lm.variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            logits = lm.logits(inputs, training=training)
        return logits, [scope.get_current_value(v) for v in lm.variables]

    compiled = jax.jit(stateless, static_argnums=2)

    def run(inputs: dict[str, Any], training: bool) -> Any:
        values = [variable.value for variable in lm.variables]
        logits, new_values = compiled(values, inputs, training)
        for variable, old, new in zip(
            lm.variables, values, new_values, strict=True
        ):
            if new is not None and new is not old:
                variable.assign(new)
        return logits

    return run
