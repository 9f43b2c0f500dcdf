"""ONNX files with memory as inputs and outputs, checked before they appear.

Axes: B rows, T segment, M memory slots.
"""

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
from keras_txl.export.onnx_companions import write_companions
from keras_txl.export.onnx_conversion import OPSET
from keras_txl.export.onnx_conversion import check_opset
from keras_txl.export.onnx_conversion import convert
from keras_txl.export.onnx_file import describe
from keras_txl.export.onnx_file import save
from keras_txl.export.onnx_graphs import make_graph
from keras_txl.export.onnx_quantization import TOLERANCES
from keras_txl.export.onnx_quantization import check_quantization
from keras_txl.export.onnx_signature import Value
from keras_txl.export.onnx_signature import check_flavour
from keras_txl.export.rebuild import call_on_tensorflow
from keras_txl.export.staging import staged_folder
from keras_txl.layers.layer_types import has_several_types

FLOAT32 = 1e-4
"""Tolerance of the check, in units of `max(1, |expected|)`."""


def export_onnx(
    lm: Any,
    path: str | os.PathLike[str],
    flavour: str = "kv",
    memory_length: int | None = None,
    opset: int = OPSET,
    quantize: str | None = None,
) -> Path:
    """Write a model as an ONNX file, with what runtimes need beside it.

    Before the folder appears, a fresh process without Keras loads the file in
    ONNX Runtime and reads segments of lengths 1 to 16 in sessions of one and
    three rows with memory fed back; every result must be the Keras model's.

    Args:
        lm: a `TransformerXLCausalLM`, on any backend.
        path: folder to write: `model.onnx`, `manifest.json`, `config.json`
            and the files of the tokenizer. Files of the same name are
            replaced.
        flavour: `"hidden"` (the paper's memory; segments), `"kv"` (keys and
            values as Hugging Face and ONNX Runtime GenAI name them) or
            `"kv_ring"` (a token at a time, constant memory, fastest).
        memory_length: int. Memory slots M, in tokens. Defaults to the
            model's `eval_memory_length`.
        opset: int. Version of ONNX's operator set, 13 to 18.
        quantize: `"int8"` (a quarter of the size, 1.5 to 2 times as fast on a
            CPU) or `"fp16"` (half of the size). Such a file is checked by the
            loss of the tokens, after the exact one has been.

    Returns:
        The folder.

    Raises:
        ExportMismatchError: if the file computes anything else.
        ImportError: if onnx or onnxruntime is not installed.
        TypeError: if the model is no language model.
        ValueError: if an argument is out of range, or the model has no such
            flavour.
    """
    check_language_model(lm)
    check_installed()
    check_opset(opset)
    check_quantization(quantize)
    check_optional_integer("memory_length", memory_length, 0)
    if memory_length is None:
        memory_length = lm.backbone.memory_layers[0].slots(training=False)
    check_flavour(lm.backbone, flavour, memory_length)
    lm = in_float32(lm)
    manifest: dict[str, Any] = {
        "target": "onnx",
        "flavour": flavour,
        "opset": opset,
        "quantization": None,
        **describe_model(lm, memory_length),
    }
    window = None if flavour == "hidden" else memory_length + 1
    arrays: dict[str, Any] = expected_values(lm, memory_length, window)
    with (
        staged_folder(Path(path)) as stage,
        tempfile.TemporaryDirectory(prefix="keras_txl_") as scratch,
    ):
        expected = Path(scratch, "expected.npz")
        np.savez(expected, **arrays)
        manifest["signatures"] = call_on_tensorflow(
            f"{__name__}:write_model", lm, folder=str(stage), manifest=manifest
        )
        _check_and_quantize(stage, manifest, expected, quantize)
        manifest["tokenizer"] = write_companions(lm, stage, manifest)
        write_manifest(stage, manifest)
    return Path(path)


def _check_and_quantize(
    stage: Path, manifest: dict[str, Any], expected: Path, quantize: str | None
) -> None:
    """The exact file is checked first, then the quantized one."""
    call = {
        "folder": str(stage),
        "manifest": manifest,
        "expected": str(expected),
        "tolerance": FLOAT32,
    }
    checker = "keras_txl.export.onnx_check:check_model"
    manifest["check"] = call_in_fresh_process(checker, call)
    if quantize is not None:
        call_in_fresh_process(
            "keras_txl.export.onnx_quantization:quantize_folder",
            {"folder": str(stage), "quantize": quantize},
        )
        manifest["quantization"] = quantize
        manifest["check"] = call_in_fresh_process(
            checker, {**call, "tolerance": TOLERANCES[quantize]}
        )


def check_installed() -> None:
    """Raise `ImportError` unless the optional packages are there."""
    for package in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"ONNX export needs the package {package}. Install it with: "
                "pip install 'keras-txl[edge]'"
            )


def in_float32(lm: Any) -> Any:
    """The same weights under a float32 policy."""
    backbone = lm.backbone
    types = {backbone.compute_dtype, backbone.memory_dtype}
    if types == {"float32"} and not has_several_types(backbone):
        return lm
    with tempfile.TemporaryDirectory(prefix="keras_txl_") as preset:
        lm.save_to_preset(preset)
        return type(lm).from_preset(
            preset, dtype="float32", memory_dtype="float32"
        )


def write_model(
    lm: Any, folder: str, manifest: dict[str, Any]
) -> dict[str, Any]:
    """Write the file. Keras runs on TensorFlow.

    Args:
        lm: a `TransformerXLCausalLM` in float32.
        folder: where the file goes.
        manifest: what is known before.

    Returns:
        Shape and dtype of each input and output of the only signature.
    """
    graph = make_graph(
        lm, manifest["flavour"], manifest["model"]["memory_length"]
    )
    model = convert(graph, manifest["opset"])
    describe(model, manifest)
    save(model, Path(folder))

    def told(values: tuple[Value, ...]) -> dict[str, Any]:
        return {
            value.name: {"shape": list(value.shape), "dtype": value.dtype}
            for value in values
        }

    return {
        "step": {"inputs": told(graph.inputs), "outputs": told(graph.outputs)}
    }
