"""What a step started from, to find the gradients that it had."""

from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.training.compiled_for_model import CompiledForModel
from keras_txl.training.probe import Probe
from keras_txl.training.probe import compile_gradient_squares


class StepBefore:
    """Weights and training memory as they were before a step."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._squares = CompiledForModel(compile_gradient_squares)

    def keep(self, lm: Any) -> None:
        """Copy what the next step starts from."""
        self._values = _copies(_changed_by_steps(lm))

    def bad_gradients(self, lm: Any, batch: Any) -> list[str]:
        """Look for gradients that are not finite, without dropout.

        Args:
            lm: a `TransformerXLCausalLM`. It is left as it is.
            batch: that the step was trained on: `(inputs, targets)` or
                `(inputs, targets, sample_weight)`.

        Returns:
            Paths of the weights that have such a gradient, in the order of
            the layers.
        """
        variables = _changed_by_steps(lm)
        spoiled = _copies(variables)
        _assign(variables, self._values)
        try:
            *measured, empty = Probe(batch).measured(lm)
            memory = _training_memory(lm, len(empty["length"])) or empty
            squares = self._squares(lm)(*measured, memory)
            finite = ops.convert_to_numpy(ops.isfinite(squares)).tolist()
        finally:
            _assign(variables, spoiled)
        return [
            variable.path
            for variable, good in zip(
                lm.trainable_variables, finite, strict=True
            )
            if not good
        ]


def _changed_by_steps(lm: Any) -> list[Any]:
    banks = [
        variable
        for memory in _filled_memories(lm)
        for variable in memory.bank(training=True)
    ]
    return [*lm.trainable_variables, *banks]


def _filled_memories(lm: Any) -> list[Any]:
    return [
        memory
        for memory in lm.segment_memories
        if memory.batch_size is not None and memory.memory_length
    ]


def _training_memory(lm: Any, rows: int) -> Memory | None:
    """The training bank as a value, if there is one."""
    banks = [memory.bank(training=True) for memory in _filled_memories(lm)]
    if not banks:
        return None
    states, lengths, documents = zip(*banks, strict=True)
    return {
        "states": ops.stack([layer.value[:rows] for layer in states], axis=1),
        "length": lengths[0].value[:rows],
        "document": documents[0].value[:rows],
    }


def _copies(variables: list[Any]) -> list[Any]:
    return [ops.stop_gradient(ops.copy(v.value)) for v in variables]


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
