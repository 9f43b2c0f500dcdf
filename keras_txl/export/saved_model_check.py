"""Checks a SavedModel where nothing but TensorFlow is loaded."""

from typing import Any

import numpy as np

from keras_txl.export.check import Array
from keras_txl.export.check import replay


def check_saved_model(
    folder: str, expected: str, tolerance: float
) -> dict[str, Any]:
    """Load a SavedModel and compare it with the Keras model.

    Args:
        folder: of the SavedModel.
        expected: `.npz` file of `expected_values`.
        tolerance: see `replay`.

    Returns:
        The largest differences, for the manifest.

    Raises:
        ExportMismatchError: if a difference is too large.
    """
    import tensorflow as tf

    signatures = tf.saved_model.load(folder).signatures

    def start(rows: int) -> Any:
        ones = tf.ones([rows], tf.int32)
        return signatures["initial_memory"](rows=ones)

    def step(inputs: dict[str, Array], memory: Any) -> Any:
        segment = {
            name: tf.constant(inputs[name])
            for name in ("token_ids", "token_length")
        }
        stepped = signatures["step"](**segment, **memory)
        scored = signatures["score"](
            **segment, **memory, targets=tf.constant(inputs["targets"])
        )
        outputs = {
            "logits": stepped["logits"].numpy(),
            "token_losses": scored["token_losses"].numpy(),
            "memory": _states(scored),
            "memory_length": scored["new_memory_length"].numpy(),
        }
        memory = {name: stepped[f"new_{name}"] for name in memory}
        return outputs, memory

    with np.load(expected) as arrays:
        errors = replay(dict(arrays), start, step, tolerance, "SavedModel")
    return {"tolerance": tolerance, "max_abs_error": errors}


def _states(outputs: Any) -> Array:
    states = np.asarray(outputs["new_memory"]).astype("float32")
    if "new_memory_scale" in outputs:
        states *= np.asarray(outputs["new_memory_scale"])[..., None]
    return states
