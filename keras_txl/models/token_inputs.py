"""The one door through which token ids or features enter a model.

Axes: B rows, T segment, C features.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Tensor

TOKEN_IDS = "token_ids"
FEATURES = "features"


def normalize_inputs(
    inputs: Any, feature_dim: int | None = None
) -> dict[str, Tensor]:
    """Bring any accepted form of input to its two tensors.

    Args:
        inputs: int ids of shape `(batch, segment_length)`, or a dict with
            `token_ids` and, optionally, `document_ids` (int, -1 is padding;
            missing: one document) and `padding_mask` (bool, `False` is
            padding), each of that shape.
        feature_dim: int. Width of the vectors that stand in place of ids:
            `features` is then a float tensor of shape `(batch,
            segment_length, feature_dim)`. `None`: ids.

    Returns:
        Dict of int32 tensors `token_ids` and `document_ids` of shape
        `(batch, segment_length)`, or with `features` in place of `token_ids`.

    Raises:
        ValueError: if the ids or features are missing, a key is unknown, the
            shapes differ, or `check_document_ids` refuses an array.
    """
    name = TOKEN_IDS if feature_dim is None else FEATURES
    if not isinstance(inputs, dict):
        inputs = {name: inputs}
    unknown = sorted(set(inputs) - {name, "document_ids", "padding_mask"})
    if unknown or name not in inputs:
        came = "token ids" if feature_dim is None else "features"
        raise ValueError(
            f"`inputs` must be {came}, or a dict with `{name}` and "
            "optionally `document_ids` and `padding_mask`. "
            f"Received: keys={sorted(inputs)}. Rename or remove "
            f"{unknown or f'nothing, but add {name}'}."
        )
    if feature_dim is None:
        values = _to_dtype(inputs[name], "int32")
        tokens = _check_token_ids(values)
    else:
        values = _to_dtype(inputs[name], "float32")
        tokens = _check_features(values, feature_dim)
    if inputs.get("document_ids") is None:
        # Zeros, but made of the ids: constants would let TensorFlow count a
        # segment into memory when it asks for one and the data have ended.
        document_ids = tokens * 0
    else:
        check_document_ids(inputs["document_ids"])
        document_ids = _to_dtype(inputs["document_ids"], "int32")
        _check_shape("document_ids", document_ids, tokens, name)
    if inputs.get("padding_mask") is not None:
        keep = inputs["padding_mask"]
        _check_shape("padding_mask", keep, tokens, name)
        if not isinstance(keep, keras.KerasTensor):
            keep = ops.convert_to_tensor(keep)
        document_ids = ops.where(ops.cast(keep, "bool"), document_ids, -1)
    if len(inputs) > 1:  # padding may hold anything, also no token at all
        padding = document_ids < 0
        if feature_dim is not None:
            padding = ops.expand_dims(padding, -1)
        values = ops.where(padding, 0, values)
    return {
        name: _to_dtype(values, "int32" if feature_dim is None else "float32"),
        "document_ids": _to_dtype(document_ids, "int32"),
    }


def _check_token_ids(token_ids: Tensor) -> Tensor:
    """Return ids (B, T); refuse another shape."""
    if len(token_ids.shape) != 2:
        raise ValueError(
            "`token_ids` must have shape (batch_size, segment_length). "
            f"Received: token_ids.shape={tuple(token_ids.shape)}. "
            "Add a batch dimension to a single text: ids[None]."
        )
    _check_length("token_ids", token_ids)
    return token_ids


def _check_features(features: Tensor, feature_dim: int) -> Tensor:
    """Return zeros (B, T) made of features (B, T, C), whatever they hold."""
    shape = tuple(features.shape)
    if len(shape) != 3 or shape[2] != feature_dim:
        raise ValueError(
            "`features` must have shape (batch_size, segment_length, "
            f"{feature_dim}). Received: features.shape={shape}. Add a batch "
            "dimension to a single series: features[None]."
        )
    _check_length("features", features)
    return ops.cast(ops.isnan(features[..., 0]), "int32") * 0


def _check_length(name: str, values: Tensor) -> None:
    if values.shape[1] == 0:
        raise ValueError(
            f"`{name}` must hold at least one token a row. Received: "
            f"{name}.shape={tuple(values.shape)}. Leave empty segments "
            "out: they change nothing."
        )


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
    targets = _to_dtype(targets, "int32")
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


def check_document_ids(document_ids: Any) -> None:
    """Refuse an array of NumPy with ids that int32 does not tell apart.

    A hash of 64 bits would lose its upper half: two documents could become
    one, and each second one padding. Tensors are not looked into.

    Args:
        document_ids: as `normalize_inputs` accepts them.

    Raises:
        ValueError: with one of the ids.
    """
    if not isinstance(document_ids, np.ndarray) or np.can_cast(
        document_ids.dtype, "int32"
    ):
        return
    low, high = -(2**31), 2**31 - 1
    outside = (document_ids < low) | (document_ids > high)
    bad = document_ids[outside | (document_ids != np.trunc(document_ids))]
    if bad.size:
        raise ValueError(
            "`document_ids` must be integers that int32 holds. Received: "
            f"{bad[0]}. Number the documents: "
            "np.unique(names, return_inverse=True)[1]."
        )


def _to_dtype(values: Any, dtype: str) -> Tensor:
    if not isinstance(values, keras.KerasTensor):
        values = ops.convert_to_tensor(values)
    if keras.backend.standardize_dtype(values.dtype) == dtype:
        return values
    return ops.cast(values, dtype)


def _check_shape(
    name: str, values: Any, tokens: Any, like: str = TOKEN_IDS
) -> None:
    shape = tuple(getattr(values, "shape", ops.shape(values)))
    expected = tuple(tokens.shape)
    same = len(shape) == len(expected) and all(
        a == b or a is None or b is None
        for a, b in zip(shape, expected, strict=True)
    )
    if not same:
        each = "" if like == TOKEN_IDS else " without the last axis"
        raise ValueError(
            f"`{name}` must have the shape of `{like}`{each}. Received: "
            f"{name}.shape={shape}, {like}.shape={expected}."
        )
