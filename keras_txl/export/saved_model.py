"""SavedModel for TensorFlow Serving, checked before it appears.

Axes: B rows, T segment, M memory slots.
"""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.checks import check_language_model
from keras_txl.checks import check_optional_integer
from keras_txl.export.check import expected_values
from keras_txl.export.fresh_process import call_in_fresh_process
from keras_txl.export.manifest import describe_model
from keras_txl.export.manifest import write_manifest
from keras_txl.export.memory_format import check_memory_format
from keras_txl.export.rebuild import call_on_tensorflow
from keras_txl.export.serving_files import write_server_files
from keras_txl.export.staging import staged_folder

FLOAT32 = 1e-5
"""Tolerance of the check, in units of `max(1, |expected|)`."""

BACKENDS = 1e-4
"""The same between TensorFlow and another backend, which round otherwise."""

LOW_PRECISION = 5e-2
"""The same if weights or memory are in fewer bits."""

_FILES = "keras_txl.export.saved_model_files"
_CHECK = "keras_txl.export.saved_model_check"


def export_saved_model(
    lm: Any,
    path: str | os.PathLike[str],
    version: int | None = None,
    memory_length: int | None = None,
    memory_format: str = "float32",
    num_sessions: int | None = None,
    stop_token_ids: Sequence[int] | None = None,
) -> Path:
    """Write a model as a SavedModel that TensorFlow Serving loads.

    Its signatures are `step` (also `serving_default`), `score`,
    `initial_memory`, `generate` and, if the model has a tokenizer,
    `generate_text`. A tokenizer that needs operations of another library than
    TensorFlow gets an archive of its own, with `generate_text` alone, in the
    folder `path` + `_text`. Without memory (M of 0) nothing is generated.

    Before the version folder appears, a fresh process without Keras loads it
    and reads segments of lengths 1 to 16 in four sessions of one and three
    rows with memory fed back; every result must be the Keras model's. Beside
    the versions stand `models.config` and `batching.config` for the server.

    Args:
        lm: a `TransformerXLCausalLM`, on any backend.
        path: folder of the versions; its name is the model's name.
        version: int of at least 1. Defaults to one more than the newest in
            `path`.
        memory_length: int. Memory slots M, in tokens. Defaults to the
            model's `eval_memory_length`.
        memory_format: how memory travels: `"float32"`, `"bfloat16"` (half of
            the bytes) or `"int8"` (a quarter; `memory_scale` goes along).
        num_sessions: int. Adds `session_step`, whose memory stays on the
            server, for this many sessions at once. `None`: no such thing.
        stop_token_ids: ids that end a generated row. Defaults to the end
            token of the tokenizer, if there is one.

    Returns:
        The version folder.

    Raises:
        ExportMismatchError: if the file computes anything else.
        FileExistsError: if the version is there already.
        TypeError: if the model is no language model.
        ValueError: if an argument is out of range.
    """
    check_language_model(lm)
    check_memory_format(memory_format)
    check_optional_integer("memory_length", memory_length, 0)
    check_optional_integer("num_sessions", num_sessions, 1)
    if memory_length is None:
        memory_length = lm.backbone.memory_layers[0].slots(training=False)
    path = Path(path)
    folder = _version_folder(path, version)
    text_folder = path.with_name(f"{path.name}_text") / folder.name
    tolerance = _tolerance(lm, memory_format)
    manifest = _manifest(lm, memory_length, memory_format, stop_token_ids)
    stops = manifest["sampling"]["stop_token_ids"]
    others: list[Path] = []
    with ExitStack() as stack:
        stage = stack.enter_context(staged_folder(folder))
        written = call_on_tensorflow(
            f"{_FILES}:write_saved_model",
            lm,
            folder=str(stage),
            memory_length=memory_length,
            memory_format=memory_format,
            num_sessions=num_sessions,
            stop_token_ids=stops,
        )
        checked = _check(lm, memory_length, stage, written, tolerance)
        needs = written["foreign_operations"]
        if needs:
            manifest["text_archive"] = text_folder.parent.name
        _finish(stage, manifest, written, checked)
        if needs:
            stage = stack.enter_context(staged_folder(text_folder))
            manifest["foreign_operations"] = needs
            _write_text_model(lm, memory_length, stops, stage, manifest)
            others = [text_folder.parent]
    write_server_files(path, *others)
    return folder


def _manifest(
    lm: Any,
    memory_length: int,
    memory_format: str,
    stop_token_ids: Sequence[int] | None,
) -> dict[str, Any]:
    """The manifest, as far as it is known before anything is written."""
    manifest = {
        "target": "saved_model",
        **describe_model(lm, memory_length),
        "memory_format": memory_format,
    }
    if stop_token_ids is not None:
        stops = [check_integer("stop_token_ids", i, 0) for i in stop_token_ids]
        manifest["sampling"]["stop_token_ids"] = stops
    return manifest


def _tolerance(lm: Any, memory_format: str) -> float:
    import keras

    from keras_txl.layers.layer_types import has_several_types

    backbone = lm.backbone
    narrow = not memory_format == backbone.compute_dtype == "float32"
    if narrow or has_several_types(backbone):
        return LOW_PRECISION
    same = keras.backend.backend() == "tensorflow"
    return FLOAT32 if same else BACKENDS


def _check(
    lm: Any,
    memory_length: int,
    stage: Path,
    written: dict[str, Any],
    tolerance: float,
) -> Any:
    with tempfile.TemporaryDirectory(prefix="keras_txl_") as scratch:
        expected = Path(scratch, "expected.npz")
        arrays: dict[str, Any] = expected_values(lm, memory_length)
        np.savez(expected, **arrays)
        return call_in_fresh_process(
            f"{_CHECK}:check_saved_model",
            {
                "folder": str(stage),
                "expected": str(expected),
                "tolerance": tolerance,
                "texts": written["texts"],
            },
        )


def _write_text_model(
    lm: Any,
    memory_length: int,
    stop_token_ids: list[int],
    stage: Path,
    manifest: dict[str, Any],
) -> None:
    """The archive of `generate_text` alone, for operations of a library."""
    written = call_on_tensorflow(
        f"{_FILES}:write_text_model",
        lm,
        folder=str(stage),
        memory_length=memory_length,
        stop_token_ids=stop_token_ids,
    )
    checked = call_in_fresh_process(
        f"{_CHECK}:check_text_model",
        {"folder": str(stage), "texts": written["texts"]},
    )
    _finish(stage, manifest, written, checked)


def _finish(
    stage: Path, manifest: dict[str, Any], written: Any, checked: Any
) -> None:
    told = {"signatures": written["signatures"], "check": checked}
    write_manifest(stage, {**manifest, **told})


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
