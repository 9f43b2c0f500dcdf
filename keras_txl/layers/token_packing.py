"""Moves the valid tokens of each row to its front, and back.

Padding (`document_ids` of -1) may stand anywhere in a row, and distances count
valid tokens only. Moving ids once makes both true for every layer behind:
positions are then contiguous, and padding lies in the causal future.

Axes: B rows, T segment.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor


def take_rows(values: Tensor, indices: Tensor) -> Tensor:
    """Row `indices[b, k]` of `values[b]`, for each b and k.

    Args:
        values: tensor of shape `(batch, length, ...)`.
        indices: int tensor of shape `(batch, count)`, each in
            `[0, length)`.

    Returns:
        Tensor of shape `(batch, count, ...)`.
    """
    batch, length = ops.shape(values)[:2]
    rest = tuple(values.shape[2:])
    flat = ops.reshape(values, (batch * length, *rest))
    starts = ops.arange(batch, dtype="int32")[:, None] * length
    return ops.take(flat, indices + starts, axis=0)


def packing_order(document_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Orders that bring valid tokens to the front and back again.

    Args:
        document_ids: int tensor of shape `(batch, segment_length)`, -1 on
            padding.

    Returns:
        Two int32 tensors of that shape: `order` (packed place -> own place)
        and `restore` (own place -> packed place).
    """
    length = ops.shape(document_ids)[1]
    padding = ops.cast(document_ids < 0, "int32")
    keys = padding * length + ops.arange(length, dtype="int32")  # all distinct
    order = ops.cast(ops.argsort(keys, axis=1), "int32")
    restore = ops.cast(ops.argsort(order, axis=1), "int32")
    return order, restore


@keras.saving.register_keras_serializable(package="keras_txl")
class PackTokens(keras.layers.Layer):
    """Brings the valid tokens of each row to the front.

    Call arguments:
        token_ids: int tensor of shape `(batch_size, segment_length)`, or
            float features with one more axis.
        document_ids: int tensor of that shape, -1 on padding.

    Returns:
        Packed `token_ids`, packed `document_ids`, and `restore`, the place of
        each original token in the packed row; int32 but for features.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.built = True

    def call(
        self, token_ids: Tensor, document_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        order, restore = packing_order(document_ids)
        return (
            take_rows(token_ids, order),
            take_rows(document_ids, order),
            restore,
        )

    def compute_output_spec(
        self, token_ids: Tensor, document_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        places = keras.KerasTensor(document_ids.shape, dtype="int32")
        packed = keras.KerasTensor(token_ids.shape, dtype=token_ids.dtype)
        return packed, keras.KerasTensor(document_ids.shape, "int32"), places


@keras.saving.register_keras_serializable(package="keras_txl")
class UnpackTokens(keras.layers.Layer):
    """Puts packed outputs back in place, zeros on padding.

    Call arguments:
        hidden: float tensor of shape `(batch_size, segment_length, dim)`.
        restore: int tensor of shape `(batch_size, segment_length)` from
            `PackTokens`.
        document_ids: int tensor of that shape, -1 on padding, not packed.

    Returns:
        Float tensor of shape `(batch_size, segment_length, dim)`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.built = True

    def call(
        self, hidden: Tensor, restore: Tensor, document_ids: Tensor
    ) -> Tensor:
        return zero_padding(take_rows(hidden, restore), document_ids)

    def compute_output_spec(
        self, hidden: Tensor, restore: Tensor, document_ids: Tensor
    ) -> Tensor:
        return keras.KerasTensor(hidden.shape, dtype=hidden.dtype)


def zero_padding(values: Tensor, document_ids: Tensor) -> Tensor:
    """`values (B, T, ...)` with zeros where `document_ids (B, T)` is -1."""
    return ops.where(ops.expand_dims(document_ids, -1) >= 0, values, 0)
