"""A memory value in a file, to go on in a later process."""

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Memory

NAMES = ("states", "length", "document")
STREAM_NAMES = ("unread_ids", "unsaid_ids")


def save_memory(
    path: str | os.PathLike[str], memory: Memory, model: keras.Model
) -> None:
    """Write a memory value, whole or not at all.

    Args:
        path: of the `.npz` file; an existing one is replaced.
        memory: of `model`, from `step` or a stream.
        model: the model. A hash of its weights is kept, for memory means
            something to these alone.

    Raises:
        ValueError: if it is no memory value.
    """
    if not isinstance(memory, dict) or set(NAMES) - set(memory):
        raise ValueError(
            "`memory` must be a dict of states, length and document. "
            f"Received: {type(memory).__name__}. Pass the memory of a stream "
            "or of `step`."
        )
    arrays: dict[str, Any] = {
        name: np.asarray(ops.convert_to_numpy(memory[name]))
        for name in (*NAMES, *STREAM_NAMES)
        if name in memory
    }
    # NumPy has no bfloat16; float32 holds its values exactly.
    if arrays["states"].dtype != np.float64:
        arrays["states"] = arrays["states"].astype("float32")
    path = Path(path)
    descriptor, temporary = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}."
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, fingerprint=np.array(fingerprint(model)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def load_memory(path: str | os.PathLike[str], model: keras.Model) -> Memory:
    """Read a memory value that `save_memory` wrote.

    Args:
        path: of the file.
        model: the model that it belongs to.

    Returns:
        The memory value, for `generate_stream`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, or belongs to other weights.
    """
    try:
        # `np.load` leaves a damaged file open.
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        found = str(arrays.pop("fingerprint"))
        states = arrays["states"]
        complete = not set(NAMES) - set(arrays)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as e:
        raise ValueError(
            "The memory file is damaged, or no memory file. Received: "
            f"{str(path)!r} ({type(e).__name__}). Write one with "
            "`save_memory` (--save-memory)."
        ) from e
    backbone: Any = getattr(model, "backbone", model)
    fits = states.ndim == 4 and (
        (states.shape[1], states.shape[3])
        == (backbone.num_layers, backbone.hidden_dim)
    )
    if not (complete and fits and found == fingerprint(model)):
        raise ValueError(
            "The memory belongs to another model. Received: "
            f"{str(path)!r} with states of shape {states.shape} for a model "
            f"of {backbone.num_layers} layers and width "
            f"{backbone.hidden_dim}, or for other weights. Load the model "
            "that wrote it, or begin anew without a memory file."
        )
    dtypes = {"states": backbone.memory_dtype}
    return {
        name: ops.convert_to_tensor(array, dtype=dtypes.get(name, "int32"))
        for name, array in arrays.items()
    }


def fingerprint(model: keras.Model) -> str:
    """A hash of the weights of a model: the same numbers, the same hash."""
    digest = hashlib.blake2b(digest_size=16)
    backbone: Any = getattr(model, "backbone", model)
    memory = {
        id(variable)
        for layer in backbone.memory_layers
        for variable in layer.variables
    }
    for weight in model.weights:
        if id(weight) not in memory:
            array = np.asarray(ops.convert_to_numpy(weight.value))
            digest.update(repr((array.shape, str(array.dtype))).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
