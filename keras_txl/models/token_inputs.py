"""The one door through which token ids enter a model.

Axes: B rows, T segment.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Tensor

KEYS = ("token_ids", "document_ids", "padding_mask")


def normalize_inputs(inputs: Any) -> dict[str, Tensor]:
    """Bring any accepted form of input to `token_ids` and `document_ids`.

    Args:
        inputs: int ids of shape `(batch, segment_length)`, or a dict with
            `token_ids` and, optionally, `document_ids` (int, -1 is padding;
            missing: one document) and `padding_mask` (bool, `False` is
            padding), each of that shape.

    Returns:
        Dict of int32 tensors `token_ids` and `document_ids` of shape
        `(batch, segment_length)`.

    Raises:
        ValueError: if `token_ids` is missing, a key is unknown, or the shapes
            differ.
    """
    if not isinstance(inputs, dict):
        inputs = {"token_ids": inputs}
    unknown = sorted(set(inputs) - set(KEYS))
    if unknown or "token_ids" not in inputs:
        raise ValueError(
            "`inputs` must be token ids, or a dict with `token_ids` and "
            "optionally `document_ids` and `padding_mask`. "
            f"Received: keys={sorted(inputs)}. Rename or remove "
            f"{unknown or 'nothing, but add token_ids'}."
        )
    token_ids = _to_int32(inputs["token_ids"])
    if len(token_ids.shape) != 2:
        raise ValueError(
            "`token_ids` must have shape (batch_size, segment_length). "
            f"Received: token_ids.shape={tuple(token_ids.shape)}. "
            "Add a batch dimension to a single text: ids[None]."
        )
    if token_ids.shape[1] == 0:
        raise ValueError(
            "`token_ids` must hold at least one token a row. Received: "
            f"token_ids.shape={tuple(token_ids.shape)}. Leave empty segments "
            "out: they change nothing."
        )
    if inputs.get("document_ids") is None:
        # Zeros, but made of the ids: constants would let TensorFlow count a
        # segment into memory when it asks for one and the data have ended.
        document_ids = token_ids * 0
    else:
        document_ids = _to_int32(inputs["document_ids"])
        _check_shape("document_ids", document_ids, token_ids)
    if inputs.get("padding_mask") is not None:
        keep = inputs["padding_mask"]
        _check_shape("padding_mask", keep, token_ids)
        if not isinstance(keep, keras.KerasTensor):
            keep = ops.convert_to_tensor(keep)
        document_ids = ops.where(ops.cast(keep, "bool"), document_ids, -1)
    if len(inputs) > 1:  # padding may hold anything, also no token at all
        token_ids = ops.where(document_ids < 0, 0, token_ids)
    return {
        "token_ids": _to_int32(token_ids),
        "document_ids": _to_int32(document_ids),
    }


def normalize_targets(targets: Any, token_ids: Tensor) -> Tensor:
    """Bring targets to int32.

    Args:
        targets: int ids, one for each input token.
        token_ids: tensor of shape `(batch, segment_length)`.

    Returns:
        int32 tensor of shape `(batch, segment_length)`.

    Raises:
        ValueError: if the shapes differ.
    """
    targets = _to_int32(targets)
    _check_shape("targets", targets, token_ids)
    return targets


def check_vocabulary(
    inputs: Any, vocabulary_size: int, targets: Any = None
) -> None:
    """Refuse arrays of NumPy with ids that the vocabulary has not.

    JAX would answer such ids with NaN. Tensors are left alone: to look into
    them would make the host wait for the device at each step.

    Args:
        inputs: as `normalize_inputs` accepts them. Ids on padding may be
            anything.
        vocabulary_size: int. Ids must be below it.
        targets: further ids of the shape of `token_ids`, or `None`.

    Raises:
        ValueError: if an id is out of range.
    """
    given = inputs if isinstance(inputs, dict) else {"token_ids": inputs}
    given = {name: ids for name, ids in given.items() if ids is not None}
    if not all(isinstance(ids, np.ndarray) for ids in given.values()):
        return
    kept = np.ones(given["token_ids"].shape, bool)
    if "document_ids" in given:
        kept &= given["document_ids"] >= 0
    if "padding_mask" in given:
        kept &= given["padding_mask"].astype(bool)
    for name, ids in (("token_ids", given["token_ids"]), ("targets", targets)):
        if isinstance(ids, np.ndarray):
            check_range(name, ids[kept], vocabulary_size)


def check_range(name: str, ids: np.ndarray, vocabulary_size: int) -> None:
    """Refuse ids that the vocabulary has not.

    Raises:
        ValueError: with one of them.
    """
    bad = ids[(ids < 0) | (ids >= vocabulary_size)]
    if bad.size:
        raise ValueError(
            f"`{name}` must lie in [0, {vocabulary_size}), the vocabulary. "
            f"Received: {bad[0]}. Use the tokenizer of the model, or build it "
            "with a larger `vocabulary_size`."
        )


def _to_int32(values: Any) -> Tensor:
    if not isinstance(values, keras.KerasTensor):
        values = ops.convert_to_tensor(values)
    if keras.backend.standardize_dtype(values.dtype) == "int32":
        return values
    return ops.cast(values, "int32")


def _check_shape(name: str, values: Any, token_ids: Tensor) -> None:
    shape = tuple(getattr(values, "shape", ops.shape(values)))
    expected = tuple(token_ids.shape)
    same = len(shape) == len(expected) and all(
        a == b or a is None or b is None
        for a, b in zip(shape, expected, strict=True)
    )
    if not same:
        raise ValueError(
            f"`{name}` must have the shape of `token_ids`. Received: "
            f"{name}.shape={shape}, token_ids.shape={expected}."
        )
