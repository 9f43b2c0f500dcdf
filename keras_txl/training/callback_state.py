"""What other callbacks of `fit` remember, so that they go on as well."""

import csv
import io
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_txl.training.model_state import from_arrays
from keras_txl.whole_files import write_whole

# What Keras' callbacks keep from epoch to epoch, and forget with the process.
REMEMBERED = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch"),
    "ModelCheckpoint": ("best",),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
}


def remembering(callbacks: Sequence[Any]) -> list[Any]:
    """Those of the callbacks that remember something."""
    return [callback for callback in callbacks if _keras_name(callback)]


def callback_states(callbacks: Sequence[Any]) -> list[dict[str, Any]]:
    """What `remembering` callbacks remember, as JSON can hold it."""
    return [
        {
            name: _plain(getattr(callback, name, None))
            for name in REMEMBERED[_keras_name(callback)]
        }
        for callback in callbacks
    ]


def restore_callback_states(
    callbacks: Sequence[Any], states: Sequence[dict[str, Any]]
) -> None:
    """Give callbacks back what `callback_states` told.

    Another list of callbacks than then begins anew.
    """
    names = [set(state) for state in callback_states(callbacks)]
    if names != [set(state) for state in states]:
        return
    for callback, state in zip(callbacks, states, strict=True):
        for name, value in state.items():
            setattr(callback, name, value)


def best_weights(callbacks: Sequence[Any]) -> dict[str, np.ndarray]:
    """The weights that each `EarlyStopping` holds, by name."""
    return {
        f"best{number:03d}/{index:05d}": value
        for number, callback in enumerate(callbacks)
        if _keras_name(callback) == "EarlyStopping"
        for index, value in enumerate(callback.best_weights or ())
    }


def restore_best_weights(
    callbacks: Sequence[Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Give each `EarlyStopping` back what `best_weights` told."""
    for number, callback in enumerate(callbacks):
        if _keras_name(callback) == "EarlyStopping":
            found = from_arrays(arrays, f"best{number:03d}")
            callback.best_weights = found or None


def restore_history(history: Any, epochs: list[int], logs: Any) -> None:
    """Put the epochs before into the `History` of this `fit`."""
    history.epoch = list(epochs)
    history.history = {name: list(values) for name, values in logs.items()}


def cut_log(logger: keras.callbacks.CSVLogger, epoch: int) -> None:
    """Drop the rows of a log from `epoch` on: they will be written again.

    What is left is appended to.
    """
    logger.append = True
    path = Path(logger.filename)
    if not path.is_file():
        return
    with open(path, newline="") as file:
        lines = list(csv.reader(file, delimiter=logger.sep))
    kept = lines[:1] + [line for line in lines[1:] if _is_before(line, epoch)]
    text = io.StringIO()
    csv.writer(text, delimiter=logger.sep).writerows(kept)
    write_whole(path, text.getvalue())


def _is_before(line: list[str], epoch: int) -> bool:
    return bool(line) and line[0].isdigit() and int(line[0]) < epoch


def _keras_name(callback: Any) -> str:
    for kind in type(callback).__mro__:
        if kind.__name__ in REMEMBERED and kind.__module__.startswith("keras."):
            return kind.__name__
    return ""


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else float(value)
