"""LiteRT (TensorFlow Lite) for phones, from the signatures of a SavedModel."""

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.checks import check_language_model
from keras_txl.checks import check_optional_integer
from keras_txl.export.check import expected_values
from keras_txl.export.fresh_process import call_in_fresh_process
from keras_txl.export.manifest import describe_model
from keras_txl.export.manifest import write_manifest
from keras_txl.export.rebuild import call_on_tensorflow
from keras_txl.export.staging import staged_folder

MODEL_NAME = "model.tflite"
SIGNATURES = ("step", "score", "initial_memory")
TOLERANCE = 1e-4
"""Of the check, in units of `max(1, |expected|)`."""


def export_litert(
    lm: Any, path: str | os.PathLike[str], memory_length: int | None = None
) -> Path:
    """Write a model for LiteRT, with the signatures of the SavedModel.

    Before the folder appears, a fresh process loads the file in LiteRT and
    reads the segments that every export is checked on.

    Args:
        lm: a float32 `TransformerXLCausalLM`, on any backend.
        path: folder to write: `model.tflite` and `manifest.json`.
        memory_length: int. Memory slots M, in tokens. Defaults to the
            model's `eval_memory_length`.

    Returns:
        The folder.

    Raises:
        ExportMismatchError: if the file computes anything else.
        ImportError: if ai-edge-litert is not installed.
        TypeError: if the model is no language model.
        ValueError: if an argument is out of range.
    """
    check_language_model(lm)
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise ImportError(
            "LiteRT export is checked in the package ai-edge-litert. Install "
            "it with: pip install ai-edge-litert"
        )
    check_optional_integer("memory_length", memory_length, 0)
    if memory_length is None:
        memory_length = lm.backbone.memory_layers[0].slots(training=False)
    manifest = {"target": "litert", **describe_model(lm, memory_length)}
    with (
        staged_folder(Path(path)) as stage,
        tempfile.TemporaryDirectory(prefix="keras_txl_") as scratch,
    ):
        expected, model = Path(scratch, "expected.npz"), Path(scratch, "model")
        arrays: dict[str, Any] = expected_values(lm, memory_length)
        np.savez(expected, **arrays)
        written = call_on_tensorflow(
            "keras_txl.export.saved_model_files:write_saved_model",
            lm,
            folder=str(model),
            memory_length=memory_length,
            memory_format="float32",
            num_sessions=None,
            stop_token_ids=[],
        )
        # The converter talks a lot; in a process of its own nobody hears it.
        call_in_fresh_process(
            f"{__name__}:convert_folder",
            {"folder": str(model), "file": str(stage / MODEL_NAME)},
        )
        manifest["signatures"] = {
            name: written["signatures"][name] for name in SIGNATURES
        }
        manifest["check"] = call_in_fresh_process(
            "keras_txl.export.litert_check:check_litert",
            {
                "folder": str(stage),
                "expected": str(expected),
                "tolerance": TOLERANCE,
            },
        )
        write_manifest(stage, manifest)
    return Path(path)


def convert_folder(folder: str, file: str) -> None:
    """Convert a SavedModel; its signatures keep their names."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(
        folder, signature_keys=list(SIGNATURES)
    )
    Path(file).write_bytes(converter.convert())
