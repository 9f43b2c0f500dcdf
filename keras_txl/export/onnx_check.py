"""Checks an ONNX model where nothing but ONNX Runtime is loaded."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.export.check import SESSIONS
from keras_txl.export.check import replay
from keras_txl.export.onnx_sessions import RUNNERS


def check_model(
    folder: str, manifest: dict[str, Any], expected: str, tolerance: float
) -> dict[str, Any]:
    """Run an ONNX model and compare it with the Keras model.

    Args:
        folder: of the model.
        manifest: what it will say.
        expected: `.npz` file of `expected_values`.
        tolerance: see `replay`.

    Returns:
        The largest differences, for the manifest.

    Raises:
        ExportMismatchError: if a difference is too large.
    """
    flavour = manifest["flavour"]
    runner = RUNNERS[flavour](Path(folder), manifest)
    # Keys and values know no padding behind a segment.
    sessions = {
        name: rows
        for name, rows in SESSIONS.items()
        if flavour == "hidden" or name != "unequal_rows"
    }
    with np.load(expected) as arrays:
        errors = replay(
            dict(arrays),
            runner.start,
            runner.step,
            tolerance,
            f"ONNX model ({flavour})",
            sessions,
        )
    return {"tolerance": tolerance, "max_abs_error": errors}
