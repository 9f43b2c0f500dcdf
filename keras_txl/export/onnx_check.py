"""Checks an ONNX model where nothing but ONNX Runtime is loaded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.export.check import INPUTS
from keras_txl.export.check import SEGMENT_LENGTHS
from keras_txl.export.check import SESSIONS
from keras_txl.export.check import Array
from keras_txl.export.check import replay
from keras_txl.export.errors import ExportMismatchError
from keras_txl.export.onnx_sessions import RUNNERS


def check_model(
    folder: str, manifest: dict[str, Any], expected: str, tolerance: float
) -> dict[str, Any]:
    """Run an ONNX model and compare it with the Keras model.

    Args:
        folder: of the model.
        manifest: what it says, or will say.
        expected: `.npz` file of `expected_values`.
        tolerance: see `replay`; of a quantized model the mean difference of
            the losses of tokens, in nats.

    Returns:
        The largest differences, for the manifest; of a quantized model also
        the mean one.

    Raises:
        ExportMismatchError: if a difference is too large.
    """
    flavour = manifest["flavour"]
    runner = RUNNERS[flavour](Path(folder), manifest)
    target = f"ONNX model ({flavour})"
    # Keys and values know no padding behind a segment.
    sessions = {
        name: rows
        for name, rows in SESSIONS.items()
        if flavour == "hidden" or name != "unequal_rows"
    }
    with np.load(expected) as arrays:
        found = dict(arrays)
    if manifest["quantization"] is None:
        errors = replay(
            found, runner.start, runner.step, tolerance, target, sessions
        )
        return {"tolerance": tolerance, "max_abs_error": errors}
    differences = _loss_differences(found, runner, sessions)
    mean, worst = float(differences.mean()), float(differences.max())
    if not mean <= tolerance:
        raise ExportMismatchError(
            target, mean, tolerance, "the mean of the token losses"
        )
    return {
        "tolerance": tolerance,
        "max_abs_error": {"token_losses": worst},
        "mean_loss_difference": mean,
    }


def _loss_differences(
    expected: Mapping[str, Array], runner: Any, sessions: Mapping[str, int]
) -> Array:
    """How much the loss of each token of the check differs, in nats."""
    differences = []
    for name, rows in sessions.items():
        state = runner.start(rows)
        for index, length in enumerate(SEGMENT_LENGTHS):
            place = f"{name}/{index}"
            inputs = {key: expected[f"{place}/{key}"] for key in INPUTS}
            outputs, state = runner.step(inputs, state)
            losses = _losses(outputs["logits"], inputs["targets"])
            error = np.abs(losses - expected[f"{place}/token_losses"])
            read = np.arange(length) < inputs["token_length"][:, None]
            differences.append(error[read])
    return np.concatenate(differences)


def _losses(logits: Array, targets: Array) -> Array:
    """Loss of each target `(B, T)` from logits `(B, T, V)`, in nats."""
    shifted = logits.astype("float64")
    shifted -= shifted.max(axis=-1, keepdims=True)
    totals = np.log(np.exp(shifted).sum(axis=-1))
    chosen = np.take_along_axis(shifted, targets[..., None], axis=-1)
    return np.asarray(totals - chosen[..., 0])
