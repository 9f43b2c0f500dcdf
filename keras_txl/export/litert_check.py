"""Checks a LiteRT model where nothing but LiteRT is loaded."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.export.check import Array
from keras_txl.export.check import replay


def check_litert(
    folder: str, expected: str, tolerance: float
) -> dict[str, Any]:
    """Run a LiteRT model and compare it with the Keras model.

    Args:
        folder: of the model.
        expected: `.npz` file of `expected_values`.
        tolerance: see `replay`.

    Returns:
        The largest differences, for the manifest.

    Raises:
        ExportMismatchError: if a difference is too large.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(Path(folder, "model.tflite")))
    run = {
        name: interpreter.get_signature_runner(name)
        for name in interpreter.get_signature_list()
    }

    def start(rows: int) -> Any:
        return run["initial_memory"](rows=np.ones(rows, "int32"))

    def step(inputs: dict[str, Array], memory: Any) -> Any:
        segment = {name: inputs[name] for name in ("token_ids", "token_length")}
        stepped = run["step"](**segment, **memory)
        scored = run["score"](**segment, **memory, targets=inputs["targets"])
        memory = {name: stepped[f"new_{name}"] for name in memory}
        outputs = {
            "logits": stepped["logits"],
            "token_losses": scored["token_losses"],
            **memory,
        }
        return outputs, memory

    with np.load(expected) as arrays:
        errors = replay(dict(arrays), start, step, tolerance, "LiteRT model")
    return {"tolerance": tolerance, "max_abs_error": errors}
