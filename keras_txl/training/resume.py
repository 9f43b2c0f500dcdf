"""Training that goes on where it was, step for step, whatever ended it."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_txl.checks import check_optional_integer
from keras_txl.checks import check_positive
from keras_txl.data.repeated_stream import RepeatedStream
from keras_txl.models.start_at_step import StartAtStep
from keras_txl.training import callback_state
from keras_txl.training import model_state
from keras_txl.training.checkpoint_file import CHECKPOINT_NAME
from keras_txl.training.checkpoint_file import read_checkpoint
from keras_txl.training.checkpoint_file import write_checkpoint
from keras_txl.training.interrupts import DeferredSignals
from keras_txl.training.model_description import check_model
from keras_txl.training.model_description import describe_model
from keras_txl.training.random_state import backend_random_state
from keras_txl.training.random_state import random_state
from keras_txl.training.random_state import restore_backend_random_state
from keras_txl.training.random_state import restore_random_state
from keras_txl.training.stream_description import check_stream
from keras_txl.training.stream_description import describe_stream


class ResumeTraining(StartAtStep):
    """Makes `fit` go on where it was when the same script runs again.

    A checkpoint in `folder` holds weights, optimizer, both memory banks,
    running metrics, random states (of Keras, Python, NumPy and PyTorch), the
    place in the stream, the step, the history, and what `EarlyStopping`,
    `ReduceLROnPlateau` and `ModelCheckpoint` remember. `fit` begins with it
    if it is there: every later loss, log and weight equals the run that was
    not interrupted, bit for bit on the same backend and machine. The
    `History` that `fit` returns has all epochs, and a `CSVLogger` goes on
    with its file, each epoch in it once.

    A checkpoint is due every `every_steps` steps or `every_seconds` seconds,
    when `fit` ends or stops, and when the process gets SIGINT (Ctrl-C) or
    SIGTERM: the step under way is finished (and, behind the last step of an
    epoch, its validation), the checkpoint written, and then the signal takes
    its ordinary course. The file is replaced whole: a process killed at any
    time, also while it writes, leaves the checkpoint before. A run that is
    complete is not repeated; give `fit` more `epochs` to train on.

    The model must be one of `keras_txl.models` (`StatefulModel` for a graph
    of one's own); the data a `SegmentStream`, or its `repeat()` together with
    `steps_per_epoch`. Under a strategy of TensorFlow with several replicas it
    is refused: each replica has a memory of its own, which cannot be read.

    Args:
        folder: folder of the checkpoint, made when it is missing.
        every_steps: steps between two checkpoints. None: no such rule.
        every_seconds: seconds between two checkpoints. None: no such rule.
        extra: values that JSON can hold, kept with the checkpoint.

    Raises:
        ValueError: by `fit`, if the checkpoint is damaged, or if the stream,
            the model or the optimizer differ from those of the checkpoint.
            The model is then left as it was.

    Example:

    ```python
    lm.fit(
        stream,
        epochs=3,
        callbacks=[keras_txl.training.ResumeTraining("run")],
    )
    ```
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        every_seconds: float | None = 60.0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.folder = Path(folder)
        self.every_steps = check_optional_integer("every_steps", every_steps, 1)
        self.every_seconds = (
            None
            if every_seconds is None
            else check_positive("every_seconds", every_seconds)
        )
        self.extra = dict(extra or {})
        self._fitted: Any = None  # the model, without a look at its state
        self._arrays: dict[str, np.ndarray] = {}  # of the checkpoint read
        self._state: dict[str, Any] = {}
        self._random: dict[str, np.ndarray] = {}  # for the next step
        self._after_steps: dict[str, np.ndarray] = {}  # of an epoch
        self._due = False
        self._saved_at = 0.0
        self._signals = DeferredSignals()

    def restore(self, model: Any) -> int:
        """Put a model where the checkpoint was written.

        `fit` does this by itself.

        Args:
            model: compiled, of the same configuration and batch size.

        Returns:
            Steps done.

        Raises:
            FileNotFoundError: if the folder has no checkpoint.
            ValueError: as in `fit`.
        """
        self._read(model)
        model_state.assign(model_state.training_variables(model), self._values)
        return int(self._state["step"])

    def save(self) -> Path:
        """Write the checkpoint now, at the end of a step.

        Returns:
            Path of the written file.
        """
        model = self.model  # synchronises the variables on JAX
        variables = model_state.training_variables(model)
        arrays = model_state.as_arrays(variables, "variable")
        if self._steps_begun:
            arrays |= model_state.as_arrays(model.metrics_variables, "metric")
        callbacks = self._others
        arrays |= callback_state.best_weights(callbacks) | random_state()
        epoch = self.step // self.steps_per_epoch
        done = [e for e in self._history.epoch if e < epoch]
        path = write_checkpoint(
            self.folder,
            arrays,
            {
                "step": self.step,
                "steps_per_epoch": self.steps_per_epoch,
                "next_segment": self._next_segment,
                "stream": self._described,
                "model": describe_model(model),
                "variables": [variable.path for variable in variables],
                "epochs": done,
                "history": {
                    name: [float(value) for value in values[: len(done)]]
                    for name, values in self._history.history.items()
                },
                "callbacks": callback_state.callback_states(callbacks),
                "extra": self.extra,
            },
        )
        self._due = False
        self._saved_at = time.monotonic()
        return path

    # === Called by fit ===
    def begin_fit(
        self, model: Any, stream: RepeatedStream, step: int
    ) -> tuple[RepeatedStream, int]:
        _check_replicas(model)
        self._fitted = model
        self._described = describe_stream(stream.stream)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._arrays, self._state = {}, {}
        self._random = backend_random_state()
        self.is_over = False
        if (self.folder / CHECKPOINT_NAME).is_file():
            self._read(model)
            check_model(self._state.get("model", {}), describe_model(model))
            check_stream(self._state["stream"], self._described)
            self._random = self._arrays
            step = self._state["step"]
            self.is_over = any(
                state.get("stopped_epoch") for state in self._state["callbacks"]
            )
            for callback in self.run_callbacks:
                if isinstance(callback, keras.callbacks.CSVLogger):
                    callback_state.cut_log(
                        callback, step // self.steps_per_epoch
                    )
            stream = stream.stream.repeat(self._state["next_segment"])
        self._first_batch = stream[0]
        self._next_segment = stream.start
        return stream, step

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if self._fitted is None:
            raise ValueError(
                "`ResumeTraining` needs the `fit` of a model with streams. "
                f"Received: {type(self.model).__name__}. For a graph of your "
                "own use `keras_txl.models.StatefulModel`; to train on single "
                "texts, `keras.callbacks.BackupAndRestore`."
            )
        self._saved_at = time.monotonic()
        self._due = False
        if self._state:
            self._go_on()
        self._signals.hold()

    def begin_part(self) -> None:
        if self._random and not self._steps_begun:
            restore_random_state(self._random)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        if self._steps_begun:
            self._go_on_within_epoch()
        elif self._random:
            self._random = random_state()
        self._state, self._arrays = {}, {}

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        if self._random:
            # On PyTorch, building model and data loader have drawn from them.
            restore_random_state(self._random)
            self._random = {}

    def on_train_batch_end(
        self, batch: int, logs: dict[str, float] | None = None
    ) -> None:
        # `batch` is the last step done: one call may stand for several steps.
        done = batch + 1 - self._steps_begun
        self.step += done
        self._next_segment += done
        self._due = self._due or self._is_due(done)
        if not self._steps_begun:  # the epoch is complete but for validation
            self._after_steps = backend_random_state()
        elif self._signals.received is not None:
            self.save()
            self._signals.deliver()
        elif self._due or self._fitted.stop_training:
            self.save()

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        # Validation must not shift what PyTorch draws in training: a model
        # that is new in this process draws more than one that is not.
        restore_backend_random_state(self._after_steps)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        self._after_steps = {}
        ends = self._fitted.stop_training or epoch + 1 == self.params["epochs"]
        if not self._steps_begun and (
            self._due or ends or self._signals.received is not None
        ):
            self.save()
        self._random = random_state()
        if self._signals.received is not None:
            self._signals.deliver()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        self._signals.deliver()

    def end_fit(self) -> None:
        self._signals.release()
        self._fitted = None

    # === Details ===
    @property
    def _steps_begun(self) -> int:
        """Steps of the epoch under way; 0 behind its last."""
        return self.step % self.steps_per_epoch

    @property
    def _history(self) -> Any:
        return self._fitted.history

    @property
    def _values(self) -> list[Any]:
        return model_state.from_arrays(self._arrays, "variable")

    @property
    def _others(self) -> list[Any]:
        """The callbacks whose state is kept, too."""
        return callback_state.remembering(self.run_callbacks)

    def _read(self, model: Any) -> None:
        """Read the checkpoint and see whether it fits the model."""
        arrays, state = read_checkpoint(self.folder)
        model_state.build_optimizer(model)
        model_state.check_variables(
            model_state.training_variables(model),
            model_state.from_arrays(arrays, "variable"),
            state["variables"],
            str(self.folder),
        )
        self._arrays, self._state = arrays, state

    def _go_on(self) -> None:
        """Restore everything at the beginning of `fit`."""
        model_state.assign(
            model_state.training_variables(self.model), self._values
        )
        callbacks, state = self._others, self._state
        callback_state.restore_callback_states(callbacks, state["callbacks"])
        callback_state.restore_best_weights(callbacks, self._arrays)
        callback_state.restore_history(
            self._history, state["epochs"], state["history"]
        )

    def _go_on_within_epoch(self) -> None:
        """Undo what began the epoch a second time."""
        model = self.model
        model_state.assign(model_state.training_variables(model), self._values)
        metrics = model_state.from_arrays(self._arrays, "metric")
        if not metrics or self._state["steps_per_epoch"] != (
            self.steps_per_epoch
        ):
            return
        if len(model.metrics_variables) < len(metrics):
            model_state.build_metrics(model, self._first_batch)
        if len(model.metrics_variables) != len(metrics):
            raise ValueError(
                "The metrics must be those of the checkpoint, which stands "
                "within an epoch. Received: "
                f"{len(model.metrics_variables)} variables of metrics, but "
                f"{str(self.folder)!r} holds {len(metrics)}. Compile the model "
                "as in the first run."
            )
        model_state.assign(model.metrics_variables, metrics)

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


def _check_replicas(model: Any) -> None:
    strategy = getattr(model, "distribute_strategy", None)
    replicas = getattr(strategy, "num_replicas_in_sync", 1)
    if replicas > 1 and model.memory_batch_size is not None:
        raise ValueError(
            "`ResumeTraining` needs a memory that can be read and written. "
            f"Received: a strategy with {replicas} replicas, each of which "
            "keeps its own. Train on one device, or resume at epochs with "
            "`keras.callbacks.BackupAndRestore`, which keeps no memory."
        )
