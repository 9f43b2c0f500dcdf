"""One file that holds a training run: arrays and a JSON state, no pickle.

The file is written under another name and renamed, so a run that dies while
writing leaves the checkpoint before it whole.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CHECKPOINT_NAME = "training.npz"
"""Name of the file inside the checkpoint folder."""

FORMAT = 1
_STATE = "state"

# What NumPy, zipfile and json raise for bytes that `write_checkpoint` has not
# written, those of other files included.
_UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_checkpoint(
    folder: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    state: Mapping[str, Any],
) -> Path:
    """Write `arrays` and `state` to the checkpoint of a folder.

    Args:
        folder: folder of the checkpoint, made when it is missing.
        arrays: arrays by name. Types NumPy cannot store without pickle
            (bfloat16, float8) must have been widened before.
        state: what JSON can hold.

    Returns:
        Path of the written file.

    Raises:
        ValueError: if an array would need pickle.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CHECKPOINT_NAME
    partial = folder / f".{CHECKPOINT_NAME}.partial"
    entries: dict[str, np.ndarray] = {
        f"array/{name}": value for name, value in arrays.items()
    }
    entries[_STATE] = np.array(json.dumps({"format": FORMAT, **state}))
    try:
        with open(partial, "wb") as file:
            np.savez(file, allow_pickle=False, **entries)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def read_checkpoint(
    folder: str | os.PathLike[str],
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write_checkpoint` wrote.

    Args:
        folder: folder of the checkpoint.

    Returns:
        The arrays by name, and the state.

    Raises:
        FileNotFoundError: if the folder has no checkpoint.
        ValueError: if the file is damaged or of another format.
    """
    path = Path(folder) / CHECKPOINT_NAME
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no training checkpoint in the folder. Received: "
            f"folder={str(folder)!r}, which has no {CHECKPOINT_NAME}. "
            "Train with the callback `ResumeTraining(folder)` first."
        )
    try:
        # np.load leaves a file open that it cannot read.
        with (
            open(path, "rb") as opened,
            np.load(opened, allow_pickle=False) as file,
        ):
            entries = {name: file[name] for name in file.files}
        state = json.loads(str(entries.pop(_STATE)))
        found = state.pop("format")
    except _UNREADABLE as e:
        raise ValueError(
            f"The training checkpoint is damaged. Received: {str(path)!r} "
            f"({type(e).__name__}: {e}). Delete it and train anew."
        ) from e
    if found != FORMAT:
        raise ValueError(
            f"The training checkpoint must have format {FORMAT}. Received: "
            f"format {found} in {str(path)!r}. Use the version of keras_txl "
            "that wrote it."
        )
    prefix = "array/"
    return {k.removeprefix(prefix): v for k, v in entries.items()}, state
