"""SavedModel for TensorFlow Serving, checked before it appears.

Axes: B rows, T segment, M memory slots.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.export.check import expected_values
from keras_txl.export.fresh_process import call_in_fresh_process
from keras_txl.export.manifest import describe_model
from keras_txl.export.manifest import write_manifest
from keras_txl.export.memory_format import check_memory_format
from keras_txl.export.rebuild import call_on_tensorflow
from keras_txl.export.staging import staged_folder

FLOAT32 = 1e-5
"""Tolerance of the check, in units of `max(1, |expected|)`."""

LOW_PRECISION = 5e-2
"""The same if weights or memory are in fewer bits."""


def export_saved_model(
    lm: Any,
    path: str | os.PathLike[str],
    version: int | None = None,
    memory_length: int | None = None,
    memory_format: str = "float32",
) -> Path:
    """Write a model as a SavedModel that TensorFlow Serving loads.

    Before the version folder appears, a fresh process without Keras loads it
    and reads segments of lengths 1 to 16 in four sessions of one and three
    rows with memory fed back; every result must be the Keras model's.

    Args:
        lm: a `TransformerXLCausalLM`, on any backend.
        path: folder of the versions; its name is the model's name.
        version: int of at least 1. Defaults to one more than the newest in
            `path`.
        memory_length: int. Memory slots M, in tokens. Defaults to the
            model's `eval_memory_length`.
        memory_format: how memory travels: `"float32"`, `"bfloat16"` (half of
            the bytes) or `"int8"` (a quarter; `memory_scale` goes along).

    Returns:
        The version folder.

    Raises:
        ExportMismatchError: if the file computes anything else.
        FileExistsError: if the version is there already.
        ValueError: if an argument is out of range.
    """
    memory_format = check_memory_format(memory_format)
    check_optional_integer("memory_length", memory_length, 0)
    if memory_length is None:
        memory_length = lm.backbone.memory_layers[0].slots(training=False)
    folder = _version_folder(Path(path), version)
    exact = lm.backbone.compute_dtype == "float32"
    exact = exact and memory_format == "float32"
    manifest: dict[str, Any] = {
        "target": "saved_model",
        **describe_model(lm, memory_length),
        "memory_format": memory_format,
    }
    with (
        staged_folder(folder) as stage,
        tempfile.TemporaryDirectory(prefix="keras_txl_") as scratch,
    ):
        expected = Path(scratch, "expected.npz")
        arrays: dict[str, Any] = expected_values(lm, memory_length)
        np.savez(expected, **arrays)
        manifest["signatures"] = call_on_tensorflow(
            f"{__name__}:write_saved_model",
            lm,
            folder=str(stage),
            memory_length=memory_length,
            memory_format=memory_format,
        )
        manifest["check"] = call_in_fresh_process(
            "keras_txl.export.saved_model_check:check_saved_model",
            {
                "folder": str(stage),
                "expected": str(expected),
                "tolerance": FLOAT32 if exact else LOW_PRECISION,
            },
        )
        write_manifest(stage, manifest)
    return folder


def write_saved_model(
    lm: Any, folder: str, memory_length: int, memory_format: str
) -> dict[str, Any]:
    """Write the files. Keras runs on TensorFlow.

    Args:
        lm: a `TransformerXLCausalLM`.
        folder: where the files go.
        memory_length: int M.
        memory_format: see `memory_format.py`.

    Returns:
        Shape and dtype of each input and output of each signature.
    """
    import tensorflow as tf

    from keras_txl.export.signatures import StreamSignatures

    functions = StreamSignatures(lm, memory_length, memory_format).functions()
    concrete = {
        name: function.get_concrete_function()
        for name, function in functions.items()
    }
    module = tf.Module()
    captured = (v for function in concrete.values() for v in function.variables)
    module.weights = list({id(v): v for v in captured}.values())
    tf.saved_model.save(
        module,
        folder,
        signatures={**concrete, "serving_default": concrete["step"]},
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
    )
    return {name: _describe(function) for name, function in concrete.items()}


def _describe(function: Any) -> dict[str, Any]:
    (inputs,) = function.structured_input_signature[0]

    def told(specs: dict[str, Any]) -> dict[str, Any]:
        return {
            name: {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for name, spec in sorted(specs.items())
        }

    return {
        "inputs": told(inputs),
        "outputs": told(function.structured_outputs),
    }


def _version_folder(path: Path, version: int | None) -> Path:
    versions = [
        int(entry.name)
        for entry in (path.iterdir() if path.is_dir() else ())
        if entry.name.isdecimal()
    ]
    if version is None:
        version = max(versions, default=0) + 1
    check_integer("version", version, 1)
    folder = path / str(version)
    if folder.exists():
        raise FileExistsError(
            "`version` must be a new one: servers may be reading the others. "
            f"Received: version={version} in {str(path)!r}, which holds "
            f"{sorted(versions)}. Leave `version` out for the next number."
        )
    return folder
