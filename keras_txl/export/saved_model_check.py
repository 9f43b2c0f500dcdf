"""Checks a SavedModel where nothing but TensorFlow is loaded.

Axes: B rows, L layers, M memory slots, D hidden width.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_txl.export.check import Array
from keras_txl.export.check import replay
from keras_txl.export.errors import ExportMismatchError

NEW_TOKENS = 12


def check_saved_model(
    folder: str, expected: str, tolerance: float, texts: dict[str, str]
) -> dict[str, Any]:
    """Load a SavedModel and compare it with the Keras model.

    Args:
        folder: of the SavedModel.
        expected: `.npz` file of `expected_values`.
        tolerance: see `replay`.
        texts: of prompts, what `generate_text` must answer.

    Returns:
        The largest differences, for the manifest.

    Raises:
        ExportMismatchError: if a difference is too large.
    """
    import tensorflow as tf

    signatures = tf.saved_model.load(folder).signatures
    with np.load(expected) as file:
        arrays = dict(file)
    steps = StreamSteps(signatures)
    errors = replay(arrays, steps.start, steps.step, tolerance, "SavedModel")
    if "session_step" in signatures:
        check_sessions(signatures, arrays, tolerance)
    if "generate" in signatures:
        check_generate(signatures, steps, 10 * tolerance)
    _check_texts(signatures, texts)
    return {"tolerance": tolerance, "max_abs_error": errors}


def check_text_model(folder: str, texts: dict[str, str]) -> dict[str, Any]:
    """Load an archive of `generate_text`, with what its tokenizer needs.

    Args:
        folder: of the SavedModel.
        texts: of prompts, what it answered before it was written.

    Returns:
        For the manifest.

    Raises:
        ExportMismatchError: if it answers anything else.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers its operations

    _check_texts(tf.saved_model.load(folder).signatures, texts)
    return {"texts": texts}


class StreamSteps:
    """`start` and `step` of a check, by the signatures of an archive."""

    def __init__(self, signatures: Mapping[str, Any]) -> None:
        self.signatures = signatures

    def start(self, rows: int) -> Any:
        """Memory of streams that read nothing."""
        return self.signatures["initial_memory"](rows=_array([1] * rows))

    def step(self, inputs: dict[str, Array], memory: Any) -> Any:
        """One segment through `step` and `score`."""
        names = ("token_ids", "token_length")
        segment = {name: _array(inputs[name]) for name in names}
        stepped = self.signatures["step"](**segment, **memory)
        scored = self.signatures["score"](
            **segment, **memory, targets=_array(inputs["targets"])
        )
        outputs = {
            "logits": stepped["logits"].numpy(),
            "token_losses": scored["token_losses"].numpy(),
            "memory": _states(scored),
            "memory_length": scored["new_memory_length"].numpy(),
        }
        return outputs, {name: stepped[f"new_{name}"] for name in memory}


def check_sessions(
    signatures: Mapping[str, Any], arrays: dict[str, Array], tolerance: float
) -> None:
    """`session_step` keeps the memory that would have been fed back."""

    def step(inputs: dict[str, Array], reset: int) -> Any:
        outputs = signatures["session_step"](
            token_ids=_array(inputs["token_ids"]),
            token_length=_array(inputs["token_length"]),
            session=_array([0]),
            reset=_array([reset]),
        )
        return {"logits": outputs["logits"].numpy()}, 0

    for name in ("first", "second"):  # one after the other in one slot
        replay(arrays, lambda _: 1, step, tolerance, "session_step", {name: 1})


def check_generate(
    signatures: Mapping[str, Any], steps: StreamSteps, tolerance: float
) -> None:
    """Each token that `generate` takes must be the likeliest by `step`."""
    prompts = _array([[1, 0], [0, 1], [1, 1]])
    prompt_length = np.array([1, 2, 2])
    rows = len(prompt_length)
    outputs = signatures["generate"](
        token_ids=prompts,
        token_length=_array(prompt_length),
        max_new_tokens=_array([NEW_TOKENS] * rows),
        temperature=_array([0.0] * rows, "float32"),
        top_k=_array([0] * rows),
        top_p=_array([1.0] * rows, "float32"),
        seed=_array([0] * rows),
    )
    tokens = outputs["token_ids"].numpy()
    length = outputs["token_length"].numpy()
    memory = steps.start(rows)
    for place in range(int(length.max()) - 1):
        inputs = {
            "token_ids": tokens[:, place : place + 1],
            "token_length": (place < length).astype("int32"),
        }
        stepped = signatures["step"](
            **{name: _array(value) for name, value in inputs.items()}, **memory
        )
        memory = {name: stepped[f"new_{name}"] for name in memory}
        logits = stepped["logits"].numpy()[:, 0]
        chosen = logits[np.arange(rows), tokens[:, place + 1]]
        best = logits.max(axis=-1)
        lost = (best - chosen) / np.maximum(1, np.abs(best))
        drawn = (prompt_length <= place + 1) & (place + 1 < length)
        if not (lost[drawn] <= tolerance).all():
            raise ExportMismatchError(
                "SavedModel",
                float((best - chosen)[drawn].max()),
                tolerance,
                f"the likelihood of token {place + 1} of generate",
            )


def _check_texts(signatures: Mapping[str, Any], texts: dict[str, str]) -> None:
    from keras_txl.export.saved_model_files import greedy_text_request

    if not texts:
        return
    request = greedy_text_request(list(texts))
    answer = signatures["generate_text"](**request)["texts"].numpy()
    found = [text.decode("utf-8", "replace") for text in answer.tolist()]
    wanted = list(texts.values())
    if found != wanted:
        raise ExportMismatchError(
            "SavedModel", 1.0, 0.0, f"the texts {found}, which were {wanted}"
        )


def _states(outputs: Any) -> Array:
    states = np.asarray(outputs["new_memory"]).astype("float32")
    if "new_memory_scale" in outputs:
        states *= np.asarray(outputs["new_memory_scale"])[..., None]
    return states


def _array(values: Any, dtype: str = "int32") -> Any:
    import tensorflow as tf

    return tf.constant(values, dtype)
