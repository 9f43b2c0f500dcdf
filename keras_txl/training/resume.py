"""Going on with training from a checkpoint."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.data.segment_stream import RepeatedStream
from keras_txl.training.checkpoint import TrainingCheckpoint
from keras_txl.training.checkpoint import describe_stream
from keras_txl.training.checkpoint import restore_backend_random_state
from keras_txl.training.checkpoint import training_variables
from keras_txl.training.checkpoint_file import read_checkpoint


@dataclass(frozen=True)
class TrainingPosition:
    """Where a run stands.

    Args:
        stream: the stream from here on.
        step: steps done since the beginning.
        extra: what was given to `TrainingCheckpoint` as `extra`.
    """

    stream: RepeatedStream
    step: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def pass_number(self) -> int:
        """Pass over the text that the next segment belongs to."""
        return self.stream.start // len(self.stream.stream)

    @property
    def segment_index(self) -> int:
        """Place of the next segment within its pass."""
        return self.stream.start % len(self.stream.stream)


def restore_training(
    lm: Any, stream: Any, folder: str | os.PathLike[str]
) -> TrainingPosition:
    """Put a model back to where a `TrainingCheckpoint` was written.

    Weights, optimizer, memory banks and random states are restored; what
    follows equals the run that was not interrupted (on PyTorch with dropout it
    is close to it: building a model draws from the same generator). Go on with
    `continue_fit`, or with `fit(position.stream, reset_memory=False, ...)`.

    Args:
        lm: a compiled model of the same configuration and batch size.
        stream: the same `SegmentStream` as then: same text, same sizes.
        folder: folder given to `TrainingCheckpoint`.

    Returns:
        The `TrainingPosition` to go on from.

    Raises:
        FileNotFoundError: if the folder has no checkpoint.
        ValueError: if the checkpoint is damaged, or if the stream, the model
            or the optimizer differ from those of the checkpoint. The model
            is then left as it was.

    Example:

    ```python
    position = restore_training(lm, stream, "run")
    continue_fit(lm, position, steps_per_epoch=len(stream), epochs=3)
    ```
    """
    arrays, state = read_checkpoint(folder)
    _check_stream(state["stream"], describe_stream(stream))
    if lm.optimizer is None:
        raise ValueError(
            "`lm` must be compiled before training is restored. Call "
            "`lm.compile(optimizer=...)` as for the first run."
        )
    if not lm.optimizer.built:
        lm.optimizer.build(lm.trainable_variables)
    variables = training_variables(lm)
    values = [arrays[f"{i:05d}"] for i in range(len(state["variables"]))]
    _check_variables(variables, values, state["variables"], Path(folder))
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    restore_backend_random_state(arrays)
    return TrainingPosition(
        stream=stream.repeat(state["next_segment"]),
        step=state["step"],
        extra=state["extra"],
    )


def continue_fit(
    lm: Any,
    position: TrainingPosition,
    *,
    steps_per_epoch: int,
    epochs: int,
    callbacks: Sequence[Any] = (),
    **fit_arguments: Any,
) -> None:
    """Run `fit` from a position to the end of the last epoch.

    An epoch that was interrupted is finished first, so that validation and
    schedules by epoch fall where they would have fallen.

    Args:
        lm: the model, restored or new.
        position: what `restore_training` returned, or
            `TrainingPosition(stream.repeat())` for a new run.
        steps_per_epoch: as in the first run; any number.
        epochs: number of epochs of the whole run.
        callbacks: callbacks of `fit`. A `TrainingCheckpoint` among them is
            told the stream of each part.
        **fit_arguments: other arguments of `fit`.
    """
    check_integer("steps_per_epoch", steps_per_epoch, 1)
    check_integer("epochs", epochs, 1)
    epoch, begun = divmod(position.step, steps_per_epoch)
    parts = [(steps_per_epoch, epoch, epochs)]
    if begun:
        parts = [
            (steps_per_epoch - begun, epoch, epoch + 1),
            (steps_per_epoch, epoch + 1, epochs),
        ]
    stream = position.stream
    for steps, first, last in parts:
        if first >= epochs:
            return
        for callback in callbacks:
            if isinstance(callback, TrainingCheckpoint):
                callback.stream = stream
        lm.fit(
            stream,
            steps_per_epoch=steps,
            initial_epoch=first,
            epochs=last,
            callbacks=list(callbacks),
            reset_memory=False,
            **fit_arguments,
        )
        if lm.stop_training:
            return
        done = steps * (last - first)
        stream = stream.stream.repeat(stream.start + done)


def _check_stream(then: dict[str, int], now: dict[str, int]) -> None:
    if then != now:
        differing = {k: (v, now.get(k)) for k, v in then.items()}
        told = ", ".join(
            f"{name}={new} (checkpoint: {old})"
            for name, (old, new) in differing.items()
            if old != new
        )
        raise ValueError(
            "`stream` must be the one that the checkpoint was made with. "
            f"Received: {told}. Use the same text, `batch_size` and "
            "`segment_length`."
        )


def _check_variables(
    variables: list[Any],
    values: list[np.ndarray],
    paths: list[str],
    folder: Path,
) -> None:
    if len(variables) != len(values):
        raise ValueError(
            "The model and optimizer must be those of the checkpoint. "
            f"Received: {len(variables)} variables, but {str(folder)!r} holds "
            f"{len(values)}. Build and compile the model as in the first run."
        )
    for variable, value, path in zip(variables, values, paths, strict=True):
        if tuple(variable.shape) != value.shape:
            raise ValueError(
                "The model and optimizer must be those of the checkpoint. "
                f"Received: {variable.path} of shape {tuple(variable.shape)}, "
                f"but the checkpoint holds {path} of shape {value.shape}. "
                "Build and compile the model as in the first run."
            )
