"""Runs the check of an exported model once more, whatever its target."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.checks import check_language_model
from keras_txl.export.check import expected_values
from keras_txl.export.fresh_process import call_in_fresh_process
from keras_txl.export.manifest import describe_model
from keras_txl.export.manifest import verify_manifest
from keras_txl.export.onnx_format import in_float32

CHECKS = {
    "litert": "keras_txl.export.litert_check:check_litert",
    "onnx": "keras_txl.export.onnx_check:check_model",
    "saved_model": "keras_txl.export.saved_model_check:check_saved_model",
}
"""What each target is checked by."""


def verify_export(path: str | os.PathLike[str], lm: Any) -> dict[str, Any]:
    """Compare an exported model with the Keras model that it came from.

    The files must be those that the exporter wrote, the weights those of the
    model, and what the file computes in its own runtime, in a fresh process,
    what the model computes.

    Args:
        path: folder with `manifest.json`.
        lm: a `TransformerXLCausalLM`, on any backend.

    Returns:
        `tolerance` and `max_abs_error`, measured now.

    Raises:
        ExportMismatchError: if the file computes anything else.
        TypeError: if the model is no language model.
        ValueError: if a file is not whole, or the model another.
    """
    check_language_model(lm)
    manifest = verify_manifest(path)
    target, model = manifest["target"], manifest["model"]
    if target not in CHECKS:
        raise ValueError(
            f"The target must be one of {', '.join(CHECKS)}. Received: "
            f"{target!r} in {os.fspath(path)!r}. Use the version of keras_txl "
            "that wrote it."
        )
    arguments: dict[str, Any] = {
        "folder": os.fspath(path),
        "tolerance": manifest["check"]["tolerance"],
    }
    window = None
    if target == "onnx":
        lm = in_float32(lm)
        arguments["manifest"] = manifest
        if manifest["flavour"] != "hidden":
            window = model["memory_length"] + 1
    if target == "saved_model":
        arguments["texts"] = None
    weights = describe_model(lm, model["memory_length"])["weights"]
    if weights != manifest["weights"]:
        raise ValueError(
            "The exported model must have the weights of the model. Received: "
            f"{manifest['weights']} in {os.fspath(path)!r}, {weights} in the "
            "model. Pass the model that was exported, or export it again."
        )
    with tempfile.TemporaryDirectory(prefix="keras_txl_") as scratch:
        expected = Path(scratch, "expected.npz")
        arrays: dict[str, Any] = expected_values(
            lm, model["memory_length"], window
        )
        np.savez(expected, **arrays)
        told: dict[str, Any] = call_in_fresh_process(
            CHECKS[target], {**arguments, "expected": str(expected)}
        )
    return told
