"""Callbacks that add what they measure to the logs of `fit`.

`History`, `CSVLogger`, `TensorBoard` and their like write whatever the logs
hold, if they stand behind a monitor in the list of callbacks.

Axes: B rows, L layers, M memory slots, T segment, D hidden width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_optional_integer
from keras_txl.training.compiled_for_model import CompiledForModel
from keras_txl.training.probe import Probe
from keras_txl.training.probe import compile_attention_entropy
from keras_txl.training.probe import compile_gradient_squares


def mean_slot_norm(states: Tensor, length: Tensor) -> Tensor:
    """Mean Euclidean norm of the hidden states that a memory holds.

    Args:
        states: float tensor of shape `(batch, memory_slots, hidden_dim)`,
            newest last.
        length: int tensor of shape `(batch,)`, slots that are valid.

    Returns:
        float32 scalar; 0 for an empty memory.
    """
    states = ops.cast(states, "float32")
    norms = ops.sqrt(ops.sum(ops.square(states), axis=-1))  # (B, M)
    age = ops.arange(states.shape[1], 0, -1)  # (M,)
    valid = ops.cast(age <= length[:, None], "float32")  # (B, M)
    return ops.sum(norms * valid) / ops.maximum(ops.sum(valid), 1.0)


class Monitor(keras.callbacks.Callback):
    """A callback whose measurements become logs.

    A subclass says what: `measure()` returns floats by name. They are added to
    the logs of each epoch and, if asked for, of some batches.

    Args:
        every_steps: int. Steps of an epoch from one measurement to the next,
            besides that at its end. `None`: at its end alone.
    """

    def __init__(self, every_steps: int | None = None) -> None:
        super().__init__()
        self.every_steps = check_optional_integer("every_steps", every_steps, 1)
        self._begun = 0  # first step of the call under way

    def measure(self) -> dict[str, float]:
        """Measure `self.model` as it is now."""
        raise NotImplementedError

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        self._begun = batch

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        if self.every_steps is None or logs is None:
            return
        # One call may stand for several steps.
        if self._begun // self.every_steps < (batch + 1) // self.every_steps:
            logs.update(self.measure())

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        if logs is not None:
            logs.update(self.measure())


class MemoryNorms(Monitor):
    """How long the vectors in memory are, layer by layer.

    Logs `memory_norm/layer_0` and so on: the mean Euclidean norm of the hidden
    states in the valid slots of the training bank. Layer i remembers its
    inputs, so layer 0 remembers embeddings.

    Args:
        every_steps: int. Steps of an epoch from one measurement to the next,
            besides that at its end. `None`: at its end alone.

    Raises:
        ValueError: when training begins, if the model carries no memory.
    """

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if all(memory.batch_size is None for memory in self._memories()):
            raise ValueError(
                "`MemoryNorms` needs a model that carries memory. Received: "
                f"{self.model.name}, without. Build it with `batch_size`, or "
                "leave the callback out."
            )

    def measure(self) -> dict[str, float]:
        return {
            f"memory_norm/layer_{index}": float(
                mean_slot_norm(
                    memory.train_states.value, memory.train_length.value
                )
            )
            for index, memory in enumerate(self._memories())
        }

    def _memories(self) -> list[Any]:
        return list(getattr(self.model, "segment_memories", ()))


class GradientNorms(Monitor):
    """Norms of the gradients of the loss on a probe, layer by layer.

    Logs `gradient_norm/transformer_layer_0`, and so on for every layer with
    weights, and `gradient_norm` of all of them together: Euclidean norms of
    the gradient of the mean loss of the probe, in nats, before any clipping
    and without dropout. The probe is the same text each time, so the numbers
    differ by the weights alone. A measurement costs as much as a training
    step on the probe.

    Args:
        probe: a batch `(inputs, targets)` or `(inputs, targets,
            sample_weight)`, or a list of consecutive ones: then the last is
            measured, with the memory that the others leave.
        every_steps: int. Steps of an epoch from one measurement to the next,
            besides that at its end. `None`: at its end alone.

    Raises:
        ValueError: if the probe holds no batch.

    Example:

    ```python
    probe = [stream.segment(0), stream.segment(1)]
    monitors = [GradientNorms(probe), MemoryNorms()]
    history = lm.fit(stream, callbacks=monitors).history
    history["gradient_norm/transformer_layer_0"]
    history["memory_norm/layer_0"]
    ```
    """

    def __init__(self, probe: Any, every_steps: int | None = None) -> None:
        super().__init__(every_steps)
        self.probe = Probe(probe)
        self._squares = CompiledForModel(compile_gradient_squares)

    def measure(self) -> dict[str, float]:
        model = self.model
        found = self._squares(model)(*self.probe.measured(model))
        squares: dict[str, float] = {}
        for variable, square in zip(
            model.trainable_variables,
            ops.convert_to_numpy(found).tolist(),
            strict=True,
        ):
            layer = variable.path.split("/")[0]
            squares[layer] = squares.get(layer, 0.0) + square
        return {
            "gradient_norm": sum(squares.values()) ** 0.5,
            **{
                f"gradient_norm/{layer}": square**0.5
                for layer, square in squares.items()
            },
        }


class AttentionEntropy(Monitor):
    """How widely each layer and head looks: the entropy of its attention.

    Logs `attention_entropy/layer_0` and so on, the mean over the heads of a
    layer, and with `per_head` `attention_entropy/layer_0/head_0` too: the
    entropy of the attention weights over memory and segment in nats, averaged
    over the tokens of a probe. 0 is a look at one key, log(n) an equal look at
    n keys; a head that falls to 0 early has often ceased to learn.

    Args:
        probe: a batch `(inputs, targets)` or `(inputs, targets,
            sample_weight)`, or a list of consecutive ones: then the last is
            measured, with the memory that the others leave.
        per_head: bool. Whether to log each head.
        every_steps: int. Steps of an epoch from one measurement to the next,
            besides that at its end. `None`: at its end alone.

    Raises:
        ValueError: if the probe holds no batch.
    """

    def __init__(
        self,
        probe: Any,
        per_head: bool = False,
        every_steps: int | None = None,
    ) -> None:
        super().__init__(every_steps)
        self.probe = Probe(probe)
        self.per_head = bool(per_head)
        self._entropy = CompiledForModel(compile_attention_entropy)

    def measure(self) -> dict[str, float]:
        model = self.model
        found = self._entropy(model)(*self.probe.measured(model))
        entropies: dict[str, float] = {}
        for index, heads in enumerate(ops.convert_to_numpy(found).tolist()):
            name = f"attention_entropy/layer_{index}"
            entropies[name] = sum(heads) / len(heads)
            if self.per_head:
                for head, entropy in enumerate(heads):
                    entropies[f"{name}/head_{head}"] = entropy
        return entropies
