"""Checkpoints of a running `fit`, complete enough to go on from."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_txl.checks import check_optional_integer
from keras_txl.checks import check_positive
from keras_txl.training.checkpoint_file import write_checkpoint
from keras_txl.training.interrupts import DeferredSignals


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves everything that training needs to go on.

    That is: weights, optimizer, both memory banks, the states of the random
    generators, and the place in the stream. A checkpoint is written every
    `every_steps` steps or `every_seconds` seconds, at the end of training,
    and when the process gets SIGINT (Ctrl-C) or SIGTERM: the step under way
    is finished, the checkpoint written, and then the signal takes its
    ordinary course. `restore_training` reads it.

    Args:
        folder: folder of the checkpoint. The file in it is replaced whole.
        stream: what `fit` is given: a `SegmentStream`, or its `repeat()`.
        every_steps: steps between two checkpoints. None: no such rule.
        every_seconds: seconds between two checkpoints. None: no such rule.
        extra: values that JSON can hold, kept with the checkpoint.
        step: steps done before. Defaults to the start of the stream.

    Example:

    ```python
    lm.fit(
        stream, epochs=3, callbacks=[TrainingCheckpoint("run", stream)]
    )
    ```
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        stream: Any,
        *,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        extra: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.stream = stream
        self.every_steps = check_optional_integer("every_steps", every_steps, 1)
        self.every_seconds = (
            None
            if every_seconds is None
            else check_positive("every_seconds", every_seconds)
        )
        self.extra = dict(extra or {})
        step = check_optional_integer("step", step, 0)
        self.step = getattr(stream, "start", 0) if step is None else step
        self._segments_read = 0  # since `fit` began
        self._batches_seen = 0  # in the epoch under way
        self._saved_at = 0.0
        self._signals = DeferredSignals()

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._saved_at = time.monotonic()
        self._segments_read = 0
        self._signals.hold()

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        self._batches_seen = 0

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        # `batch` is the last step done: one call may stand for several steps.
        done = batch + 1 - self._batches_seen
        self._batches_seen += done
        self._segments_read += done
        self.step += done
        if self._signals.received is not None:
            self._save_and_deliver()
        elif self._is_due(done):
            self.save()

    def on_test_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        if self._signals.received is not None:
            self._save_and_deliver()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        self.save()
        self._signals.deliver()

    def save(self) -> Path:
        """Write the checkpoint now.

        Returns:
            Path of the written file.
        """
        model = self.model  # synchronises the variables on JAX
        state = {
            "step": self.step,
            "next_segment": self._next_segment(),
            "stream": describe_stream(
                getattr(self.stream, "stream", self.stream)
            ),
            "variables": [v.path for v in training_variables(model)],
            "extra": self.extra,
        }
        arrays = {
            f"{index:05d}": _storable(variable)
            for index, variable in enumerate(training_variables(model))
        }
        arrays.update(backend_random_state())
        path = write_checkpoint(self.folder, arrays, state)
        self._saved_at = time.monotonic()
        return path

    def _next_segment(self) -> int:
        """Place of the next segment, counted over all passes."""
        if hasattr(self.stream, "start"):
            return self.stream.start + self._segments_read
        index = self._segments_read % len(self.stream)
        if index == 0:  # the next pass has not begun: any number will do
            return (self.stream.pass_number + 1) * len(self.stream)
        return self.stream.pass_number * len(self.stream) + index

    def _is_due(self, done: int) -> bool:
        by_steps = self.every_steps is not None and (
            self.step // self.every_steps
            > (self.step - done) // self.every_steps
        )
        by_time = (
            self.every_seconds is not None
            and time.monotonic() - self._saved_at >= self.every_seconds
        )
        return by_steps or by_time

    def _save_and_deliver(self) -> None:
        self.save()
        self._signals.deliver()


def training_variables(model: Any) -> list[Any]:
    """Every variable that training changes, in a fixed order.

    Weights, memory banks and random states come first, then the optimizer.

    Args:
        model: a compiled model whose optimizer has been built.

    Returns:
        List of Keras variables.
    """
    return [*model.variables, *model.optimizer.variables]


def backend_random_state() -> dict[str, np.ndarray]:
    """Random states outside of Keras variables, by name.

    On PyTorch, Keras draws dropout from the global generators unless a layer
    was given a seed.
    """
    if keras.backend.backend() != "torch":
        return {}
    import torch

    states = {"torch/cpu": torch.get_rng_state().numpy()}
    for number, state in enumerate(torch.cuda.get_rng_state_all()):
        states[f"torch/cuda{number}"] = state.numpy()
    return states


def restore_backend_random_state(arrays: Mapping[str, np.ndarray]) -> None:
    """Put back what `backend_random_state` told, where it applies."""
    if keras.backend.backend() != "torch":
        return
    import torch

    if "torch/cpu" in arrays:
        torch.set_rng_state(torch.from_numpy(arrays["torch/cpu"]))
    for number in range(torch.cuda.device_count()):
        if f"torch/cuda{number}" in arrays:
            state = torch.from_numpy(arrays[f"torch/cuda{number}"])
            torch.cuda.set_rng_state(state, number)


def describe_stream(stream: Any) -> dict[str, int]:
    """What must agree for a place in a stream to mean the same place."""
    return {
        "batch_size": stream.batch_size,
        "segment_length": stream.segment_length,
        "num_targets": stream.num_targets,
        "num_segments": len(stream),
        "random_lengths": stream.random_lengths,
        "random_starts": stream.random_starts,
        "seed": stream.seed,
    }


def _storable(variable: Any) -> np.ndarray:
    value = keras.ops.convert_to_numpy(variable.value)
    # NumPy writes bfloat16 and float8 as raw bytes that it cannot read back;
    # float32 holds them exactly and `assign` casts them back.
    return value.astype("float32") if value.dtype.kind == "V" else value
