"""The ONNX file itself: what it says of itself, and its weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MODEL_NAME = "model.onnx"
DATA_NAME = "model.onnx.data"

LARGEST_FILE = 2**31 - 2**24
"""Bytes of weights that one file holds: protobuf ends at 2 GB."""

METADATA = ("target", "flavour", "model", "weights", "tokenizer", "sampling")
"""Entries of the manifest that stand in the file as well, as JSON."""


def describe(model: Any, manifest: Mapping[str, Any]) -> None:
    """Put into the file what a driver that has only the file must know."""
    from onnx import helper

    told = {name: json.dumps(manifest[name]) for name in METADATA}
    helper.set_model_props(model, told)
    model.producer_name = "keras_txl"
    model.producer_version = manifest["versions"]["keras_txl"]
    model.graph.name = f"transformer_xl_{manifest['flavour']}"


def save(model: Any, folder: Path) -> None:
    """Write `model.onnx` and check it as ONNX itself checks.

    Weights of 2 GB and more go into `model.onnx.data` beside it.

    Args:
        model: an `onnx.ModelProto`.
        folder: that holds the files.
    """
    import onnx

    path = folder / MODEL_NAME
    for name in (MODEL_NAME, DATA_NAME):  # onnx would append to the data
        (folder / name).unlink(missing_ok=True)
    size = sum(tensor.ByteSize() for tensor in model.graph.initializer)
    onnx.save_model(
        model,
        str(path),
        save_as_external_data=size > LARGEST_FILE,
        location=DATA_NAME,
    )
    onnx.checker.check_model(str(path), full_check=True)


def load(folder: Path, name: str = MODEL_NAME) -> Any:
    """The model of a folder with its weights, an `onnx.ModelProto`."""
    import onnx

    return onnx.load(folder / name)


def file_size(folder: Path) -> int:
    """Bytes of the model in a folder, weights beside it included."""
    paths = (folder / MODEL_NAME, folder / DATA_NAME)
    return sum(path.stat().st_size for path in paths if path.is_file())
