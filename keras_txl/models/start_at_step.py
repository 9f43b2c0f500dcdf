"""A `fit` that begins at a step, and that its callbacks see as one run.

Keras gives all epochs of a `fit` the same number of steps. To begin inside an
epoch, its rest is a `fit` of its own; the callbacks notice nothing of that.
"""

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_txl.checks import check_integer
from keras_txl.data.repeated_stream import RepeatedStream
from keras_txl.data.segment_stream import SegmentStream


@dataclass(frozen=True)
class FitPart:
    """Epochs of equal length that follow each other.

    Args:
        stream: the data from the first of their steps on.
        steps_per_epoch: steps of each epoch that are left.
        steps_before: steps of the first epoch that were done before.
        first_epoch: number of the first epoch, counted from 0.
        epochs: number of the epoch that follows the last.
    """

    stream: RepeatedStream
    steps_per_epoch: int
    steps_before: int
    first_epoch: int
    epochs: int


class StartAtStep(keras.callbacks.Callback):
    """Begins `fit` at a step, in the middle of an epoch if it falls there.

    An epoch that was begun is finished first, so that validation and
    schedules by epoch fall where they would have fallen. `fit` must be given
    a `SegmentStream`, whose passes are the epochs, or its `repeat(start)` and
    `steps_per_epoch`.

    Args:
        step: steps done before, counted from the beginning of epoch 0. The
            data that `fit` gets is what follows.
    """

    def __init__(self, step: int = 0) -> None:
        super().__init__()
        self.step = check_integer("step", step, 0)
        self.steps_per_epoch = 0
        self.is_over = False  # whether no step shall follow
        self.run_callbacks: list[Any] = []  # the others of this `fit`

    def begin_fit(
        self, model: Any, stream: RepeatedStream, step: int
    ) -> tuple[RepeatedStream, int]:
        """Called before anything else.

        Args:
            model: that will be trained.
            stream: the data that `fit` was given.
            step: first step of the epoch that `fit` was told to begin with.

        Returns:
            The data to train on, and the step that it begins with.
        """
        return stream, max(step, self.step)

    def begin_part(self) -> None:
        """Called before any callback hears of the first epoch of a part."""

    def end_fit(self) -> None:
        """Called after everything else, also after an error."""

    def plan(
        self,
        model: Any,
        x: Any,
        epochs: int,
        initial_epoch: int,
        steps_per_epoch: int | None,
    ) -> list[FitPart]:
        """The parts of a `fit` with these arguments."""
        stream, self.steps_per_epoch = _endless(self, x, steps_per_epoch)
        executed = getattr(model, "steps_per_execution", 1)
        if self.steps_per_epoch % executed:
            raise ValueError(
                "An epoch must be a multiple of `steps_per_execution`. "
                f"Received: {self.steps_per_epoch} steps an epoch and "
                f"steps_per_execution={executed}. Pass `stream.repeat()` and "
                "`steps_per_epoch`."
            )
        stream, self.step = self.begin_fit(
            model, stream, initial_epoch * self.steps_per_epoch
        )
        epoch, begun = divmod(self.step, self.steps_per_epoch)
        if self.is_over:
            epochs = epoch
        epochs = max(epoch, epochs)
        left = self.steps_per_epoch - begun
        if not begun or epoch == epochs:
            return [FitPart(stream, self.steps_per_epoch, 0, epoch, epochs)]
        parts = [FitPart(stream, left, begun, epoch, epoch + 1)]
        if epoch + 1 < epochs:
            rest = stream.stream.repeat(stream.start + left)
            parts.append(
                FitPart(rest, self.steps_per_epoch, 0, epoch + 1, epochs)
            )
        return parts


def start_among(callbacks: Any) -> StartAtStep | None:
    """The `StartAtStep` among the callbacks of a `fit`, if there is one."""
    found = [c for c in as_list(callbacks) if isinstance(c, StartAtStep)]
    if len(found) > 1:
        raise ValueError(
            "Only one callback can say where `fit` begins. Received: "
            f"{', '.join(type(c).__name__ for c in found)}."
        )
    return found[0] if found else None


def as_list(callbacks: Any) -> list[Any]:
    """Callbacks in any form that `fit` takes, as a list."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    return keras.tree.flatten(callbacks or [])


def fit_from_step(
    model: Any,
    fit: Callable[..., Any],
    start: StartAtStep,
    x: Any,
    *,
    epochs: int,
    callbacks: Any,
    reset_memory: bool,
    **kwargs: Any,
) -> Any:
    """`fit(x, ...)`, from where `start` begins.

    Args:
        model: that `fit` trains.
        fit: as `keras.Model.fit`, without `self`.
        start: one of the callbacks.
        x: data.
        epochs: number of epochs of the whole run.
        callbacks: as for `fit`.
        reset_memory: whether the training bank begins empty, unless `start`
            fills it.
        **kwargs: all other arguments of `fit`.

    Returns:
        The `keras.callbacks.History`.
    """
    verbose = kwargs.get("verbose", "auto")
    others = [c for c in as_list(callbacks) if c is not start]
    others += _missing_callbacks(others, verbose)
    start.run_callbacks = others
    parts = start.plan(
        model,
        x,
        epochs,
        kwargs.pop("initial_epoch", 0),
        kwargs.pop("steps_per_epoch", None),
    )
    if reset_memory:
        model.reset_memory("train")
    run = _OneRun(
        [*others, start],
        model=model,
        verbose=verbose,
        epochs=epochs,
        steps=start.steps_per_epoch,
    )
    try:
        for part in parts:
            run.begin_part(start, part, part is parts[-1])
            fit(
                part.stream,
                steps_per_epoch=part.steps_per_epoch,
                initial_epoch=part.first_epoch,
                epochs=part.epochs,
                callbacks=run,
                **kwargs,
            )
            if model.stop_training:
                break
            run.undo_average()
    finally:
        start.end_fit()
    return model.history


class _OneRun(keras.callbacks.CallbackList):
    """Callbacks of all parts: one beginning, one end, true step numbers."""

    def __init__(self, callbacks: Sequence[Any], **params: Any) -> None:
        super().__init__(callbacks, **params)
        self._begun = False

    def begin_part(
        self, start: StartAtStep, part: FitPart, is_last: bool
    ) -> None:
        self._start = start
        self._part = part
        self._is_last = is_last
        self._raw_weights: list[Any] = []

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._begun:
            self._begun = True
            super().on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == self._part.first_epoch:
            self._start.begin_part()
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_begin(batch + self._part.steps_before, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch + self._part.steps_before, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        if not self._is_last and self.model.optimizer.use_ema:
            self._raw_weights = [
                ops.copy(variable.value)
                for variable in self.model.trainable_variables
            ]

    def undo_average(self) -> None:
        """Take back what Keras does to the weights at the end of a `fit`."""
        if self._raw_weights:
            for variable, value in zip(
                self.model.trainable_variables, self._raw_weights, strict=True
            ):
                variable.assign(value)

    def on_train_end(self, logs: Any = None) -> None:
        if self._is_last or self.model.stop_training:
            super().on_train_end(logs)


def _endless(
    callback: Any, x: Any, steps_per_epoch: int | None
) -> tuple[RepeatedStream, int]:
    if isinstance(x, SegmentStream) and steps_per_epoch is None:
        return x.repeat(), len(x)
    if isinstance(x, RepeatedStream) and steps_per_epoch is not None:
        return x, check_integer("steps_per_epoch", steps_per_epoch, 1)
    raise ValueError(
        f"`{type(callback).__name__}` needs data that can be read from any "
        "place: `fit(stream)` with a `keras_txl.data.SegmentStream`, or "
        "`fit(stream.repeat(), steps_per_epoch=...)`. Received: "
        f"{type(x).__name__} and steps_per_epoch={steps_per_epoch}."
    )


def _missing_callbacks(callbacks: Sequence[Any], verbose: Any) -> list[Any]:
    """What Keras would add to the callbacks of a `fit`."""
    wanted: list[Any] = [keras.callbacks.History]
    if verbose:
        wanted.append(keras.callbacks.ProgbarLogger)
    return [
        kind()
        for kind in wanted
        if not any(isinstance(c, kind) for c in callbacks)
    ]
