"""Training as `train` and `quickstart` do it: plain `fit` over a stream."""

import csv
import dataclasses
import io
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import keras

from keras_txl.cli.arguments import ModelSize
from keras_txl.cli.encoded_texts import tell_loss
from keras_txl.cli.encoded_texts import tokenizer_of
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.progress import progress_bar
from keras_txl.cli.training_choices import TrainingChoices
from keras_txl.cli.training_plan import COMPILING_STEPS
from keras_txl.cli.training_plan import FIRST_RATE
from keras_txl.cli.training_plan import MEASURED_STEPS
from keras_txl.cli.training_plan import TrainingPlan
from keras_txl.data.text_files import character_start
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.models.position_scheme import LEARNED
from keras_txl.models.start_at_step import StartAtStep
from keras_txl.training import make_optimizer
from keras_txl.whole_files import write_whole

HISTORY_COLUMNS = ("step", "seconds", "learning_rate", "loss", "val_loss")


def build_model(
    size: ModelSize,
    seed: int,
    tokenizer: Any,
    choices: TrainingChoices = TrainingChoices(),
) -> Any:
    """Make and compile a new model.

    Args:
        size: sizes of the model.
        seed: seed of its weights and of everything random in training.
        tokenizer: makes the tokens it is over.
        choices: how it will be trained.

    Returns:
        A compiled `TransformerXLCausalLM`.
    """
    keras.utils.set_random_seed(seed)
    backbone = TransformerXLBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=size.num_layers,
        num_heads=size.num_heads,
        hidden_dim=size.hidden_dim,
        intermediate_dim=size.intermediate_dim,
        memory_length=size.memory_length,
        batch_size=size.batch_size,
        dropout=size.dropout,
        cutoffs=size.cutoffs,
        div_val=size.div_val,
        position=size.position,
        max_distance=size.segment_length + size.memory_length
        if size.position in LEARNED
        else None,
    )
    preprocessor = TransformerXLCausalLMPreprocessor(tokenizer)
    lm = TransformerXLCausalLM(backbone, preprocessor)
    lm.compile(
        optimizer=make_optimizer(
            choices.optimizer,
            FIRST_RATE * size.learning_rate,
            weight_decay=choices.weight_decay,
            global_clipnorm=choices.clip_norm,
            gradient_accumulation_steps=choices.accumulate,
        )
    )
    return lm


def matched_size(size: ModelSize, like: ModelSize, tokenizer: Any) -> ModelSize:
    """A size with as many parameters as another, as nearly as may be.

    Args:
        size: sizes whose feed-forward layers are made wider or narrower.
        like: sizes to match.
        tokenizer: makes the tokens the models are over.

    Returns:
        `size` with another `intermediate_dim`.
    """
    if size == like:
        return size
    missing = count_parameters(build_model(like, 0, tokenizer))
    missing -= count_parameters(build_model(size, 0, tokenizer))
    # Each unit has a row, a column and a bias in every block.
    unit = size.num_layers * (2 * size.hidden_dim + 1)
    width = max(1, size.intermediate_dim + round(missing / unit))
    return dataclasses.replace(size, intermediate_dim=width)


class TrainingHistory(keras.callbacks.Callback):
    """One row a slice: losses in nats per token, kept and written as CSV.

    Args:
        path: CSV file. None: rows are only kept.
        step: steps done before; later rows of the file are dropped, since
            the run goes on from there.
    """

    def __init__(self, path: Path | None = None, step: int = 0) -> None:
        super().__init__()
        self.path = path
        self.step = step
        self.rows: list[dict[str, Any]] = []
        if path is not None and path.is_file():
            self.rows = [r for r in read_history(path) if r["step"] <= step]
        self._before = self.rows[-1]["seconds"] if self.rows else 0.0
        self._started = time.monotonic()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step = self._epoch * self.params["steps"] + batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = logs or {}
        self.rows.append(
            {
                "step": self.step,
                "seconds": self._before + time.monotonic() - self._started,
                "learning_rate": logs.get("learning_rate"),
                "loss": logs.get("loss"),
                "val_loss": logs.get("val_loss"),
            }
        )
        if self.path is not None:
            write_history(self.path, self.rows)


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read what `TrainingHistory` wrote."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {
                name: float(row[name]) if row.get(name) else None
                for name in HISTORY_COLUMNS
            }
            for row in csv.DictReader(file)
        ]


def write_history(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows of a history, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HISTORY_COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                name: _short(name, value)
                for name, value in row.items()
                if value is not None
            }
        )
    write_whole(path, text.getvalue())


def _short(name: str, value: float) -> str:
    return str(int(value)) if name == "step" else f"{value:.6g}"


class _Progress(keras.callbacks.Callback):
    """Moves the bar, times the steps, and stops after the last one."""

    def __init__(
        self, update: Callable[..., None], step: int, steps: int, last: int
    ) -> None:
        super().__init__()
        self._update = update
        self._step = step
        self._steps = steps
        self._last = last
        self._epoch = 0
        self._note = ""
        self.times: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step = self._epoch * self.params["steps"] + batch + 1
        self.times.append(time.monotonic())
        loss = (logs or {}).get("loss")
        if loss is not None:
            self._note = tell_loss(float(loss), tokenizer_of(self.model))
        self._update(self._step, self._steps, self._note)
        if self._step >= self._last:
            self.model.stop_training = True


def measure_step(
    lm: Any,
    stream: Any,
    callbacks: Sequence[Any] = (),
    step: int = 0,
) -> tuple[int, float]:
    """Train the first steps and time them.

    Args:
        lm: a compiled model.
        stream: a `SegmentStream`.
        callbacks: further callbacks of `fit`.
        step: steps done before, if a `ResumeTraining` among the callbacks
            goes on with a run.

    Returns:
        Steps done, and the seconds of a step without compilation.
    """
    last = max(step + 1, MEASURED_STEPS)
    with progress_bar("Compiling and timing") as update:
        progress = _Progress(update, step, last, last)
        begun = time.monotonic()
        lm.fit(
            stream.repeat(),
            steps_per_epoch=last,
            epochs=1,
            callbacks=[progress, *callbacks],
            verbose=0,
        )
    times = [begun, *progress.times]
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    seconds = median(gaps[COMPILING_STEPS:] or gaps[-1:])
    return last, seconds


def run_plan(
    lm: Any,
    stream: Any,
    step: int,
    plan: TrainingPlan,
    validation: Any,
    callbacks: Sequence[Any] = (),
) -> None:
    """Train from a step to the end of a plan, with validation.

    Args:
        lm: a compiled model.
        stream: a `SegmentStream`.
        step: steps done before.
        plan: the course of the run.
        validation: a `SegmentStream`, or None for no validation.
        callbacks: further callbacks of `fit`.
    """
    if not any(isinstance(c, StartAtStep) for c in callbacks):
        callbacks = [*callbacks, StartAtStep(step)]
    with progress_bar("Training") as update:
        progress = _Progress(update, step, plan.steps, plan.steps)
        lm.fit(
            stream.repeat(step),
            steps_per_epoch=plan.steps_per_epoch,
            epochs=plan.epochs,
            validation_data=validation,
            validation_freq=plan.validations,
            callbacks=[
                keras.callbacks.LearningRateScheduler(
                    lambda epoch, rate: plan.rate(epoch)
                ),
                progress,
                *callbacks,
            ],
            reset_memory=False,
            verbose=0,
        )


def take_bytes(documents: Sequence[Any], limit: int) -> list[bytes]:
    """The first documents, about `limit` bytes together.

    Args:
        documents: documents of a `Corpus`.
        limit: bytes wanted. The last document is cut there, or before the
            character that would be cut.

    Returns:
        List of texts.
    """
    taken, left = [], limit
    for document in documents:
        if left <= 1:
            break
        data = document.data
        taken.append(data[: character_start(data, left)])
        left -= len(taken[-1])
    return taken
