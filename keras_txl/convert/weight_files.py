"""Configurations and arrays from files. Nothing runs code from a file."""

import json
import zipfile
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CONFIG_NAME = "config.json"

WEIGHT_NAMES = (
    "model.safetensors",
    "pytorch_model.bin",
    "weights.npz",
)
"""Names looked for in a folder, the first that is there."""


def read_source(
    config: Any, weights: Any
) -> tuple[dict[str, Any], Mapping[str, np.ndarray], str]:
    """The configuration and the arrays that two arguments mean.

    Args:
        config: dict, path of a JSON file, or of a folder with `config.json`.
        weights: mapping of names to arrays, path of a weight file, or of a
            folder with one. `None`: the folder given as `config`.

    Returns:
        The configuration, the arrays by name, and what to call them in
        messages.

    Raises:
        ValueError: if an argument is neither, or a file cannot be read.
        FileNotFoundError: if a file is not there.
    """
    if weights is None:
        if isinstance(config, Mapping) or not Path(config).is_dir():
            raise ValueError(
                "`weights` may be left out only if `config` is a folder with "
                f"{CONFIG_NAME} and weights. Received: config={config!r}. "
                "Pass a mapping of names to arrays, or a path, as `weights`."
            )
        weights = config
    if isinstance(weights, Mapping):
        return read_config(config), _plain(weights), "a mapping of arrays"
    return read_config(config), read_arrays(weights), str(weights)


def read_config(config: Any) -> dict[str, Any]:
    """A configuration as a dict.

    Args:
        config: dict, path of a JSON file, or of a folder with `config.json`.

    Returns:
        The dict.

    Raises:
        ValueError: if it is something else.
        FileNotFoundError: if there is no such file.
    """
    if isinstance(config, Mapping):
        return dict(config)
    path = Path(config)
    path = path / CONFIG_NAME if path.is_dir() else path
    _check_exists(path, "config")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"`config` must be a JSON file. Received: {str(path)!r} ({error}). "
            "Write the arguments of the model as one JSON object."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            "`config` must hold one JSON object of names and values. "
            f"Received: {str(path)!r}, which holds a {type(value).__name__}. "
            'Write it as {"n_layer": 12, ...}.'
        )
    return value


def read_arrays(path: Any) -> Mapping[str, np.ndarray]:
    """The arrays of a weight file, by name.

    Args:
        path: file that ends in `.safetensors`, `.bin`, `.pt`, `.pth` or
            `.npz`, or a folder with one of `WEIGHT_NAMES`.

    Returns:
        Mapping of names to arrays.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it cannot be read as arrays alone.
        ImportError: if the package that reads it is not installed.
    """
    file = find_weights(Path(path))
    reader = _READERS.get(file.suffix)
    if reader is None:
        raise ValueError(
            f"`weights` must end in {', '.join(_READERS)}. Received: "
            f"{str(file)!r}. Save the state_dict as one of these."
        )
    return reader(file)


def find_weights(path: Path) -> Path:
    """The weight file that a path means.

    Raises:
        FileNotFoundError: if there is none.
    """
    _check_exists(path, "weights")
    if not path.is_dir():
        return path
    for name in WEIGHT_NAMES:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(
        f"A folder of weights must hold one of {', '.join(WEIGHT_NAMES)}. "
        f"Received: {str(path)!r}, which has none. Pass the file itself."
    )


def _check_exists(path: Path, name: str) -> None:
    if not path.exists():
        raise FileNotFoundError(
            f"`{name}` must be a file or folder that exists. Received: "
            f"{str(path)!r}. Check the path; a folder needs {CONFIG_NAME} and "
            f"one of {', '.join(WEIGHT_NAMES)}."
        )


def _plain(weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays of a mapping whose values may be PyTorch tensors."""
    return {
        name: value
        if isinstance(value, np.ndarray)
        else _to_numpy(value)
        if hasattr(value, "detach")
        else np.asarray(value)
        for name, value in weights.items()
    }


def _to_numpy(tensor: Any) -> np.ndarray:
    """A float32 array of a PyTorch tensor; NumPy has no bfloat16."""
    array: np.ndarray = tensor.detach().cpu().float().numpy()
    return array


def _read_npz(path: Path) -> Mapping[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        if "pickle" in str(error):  # NumPy's advice would be to unpickle it
            error = ValueError("it is no .npz archive, or holds objects")
        raise _unreadable(path, error) from error


def _read_safetensors(path: Path) -> Mapping[str, np.ndarray]:
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise ImportError(
            "Reading .safetensors needs the package safetensors. Install it "
            "with: pip install 'keras-txl[convert]'"
        ) from error
    try:
        arrays: Mapping[str, np.ndarray] = load_file(path)
    except Exception as error:  # the package has classes of its own
        raise _unreadable(path, error) from error
    return arrays


def _read_pytorch(path: Path) -> Mapping[str, np.ndarray]:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"Reading {path.suffix} needs the package torch. Install it with: "
            "pip install 'keras-txl[torch]'"
        ) from error
    try:
        # Arrays alone: a pickled model could run any code.
        value = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _unreadable(path, error) from error
    if not isinstance(value, Mapping) or not all(
        isinstance(tensor, torch.Tensor) for tensor in value.values()
    ):
        raise _unreadable(path, TypeError("it is no dict of tensors"))
    return {name: _to_numpy(tensor) for name, tensor in value.items()}


def _unreadable(path: Path, error: Exception) -> ValueError:
    told = (str(error).splitlines() or [""])[0]
    return ValueError(
        "`weights` must be a file of named arrays and nothing else. Received: "
        f"{str(path)!r} ({type(error).__name__}: {told}). Where the model was "
        "trained, write its arrays alone: torch.save(model.state_dict(), path)."
    )


_READERS: dict[str, Callable[[Path], Mapping[str, np.ndarray]]] = {
    ".safetensors": _read_safetensors,
    ".bin": _read_pytorch,
    ".pt": _read_pytorch,
    ".pth": _read_pytorch,
    ".npz": _read_npz,
}
