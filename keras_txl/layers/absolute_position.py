"""Absolute positions: added to what a layer reads, never to memory.

A position counts the tokens that come after it in the segment, so the newest
token has position 0, as in the released code.

Axes: B rows, T segment, S = M + T keys, D hidden width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.layer_types import in_type_of


@keras.saving.register_keras_serializable(package="keras_txl")
class AbsolutePosition(keras.layers.Layer):
    """Adds position encodings to a segment and its context.

    Args:
        encoding: layer that turns a context into rows `(key_length,
            hidden_dim)`, newest last: `SinusoidalDistanceEncoding` or
            `LearnedDistanceEncoding`.
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor of shape `(batch_size, segment_length,
            hidden_dim)`.
        context: float tensor of shape `(batch_size, key_length, hidden_dim)`,
            memory and then `hidden`.
        document_ids: int tensor of shape `(batch_size, segment_length)`,
            padding (-1) last. Padding does not count.
        training: bool.

    Returns:
        `hidden` and `context` with positions added.

    Reference:
        The released code's attn_type 2 and 3.
    """

    def __init__(self, encoding: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(encoding, dict):
            encoding = keras.saving.deserialize_keras_object(encoding)
        self.encoding = encoding

    def build(
        self,
        hidden_shape: Any = None,
        context_shape: Any = None,
        document_ids_shape: Any = None,
    ) -> None:
        if not self.encoding.built:
            self.encoding.build()
        self.built = True

    def call(
        self,
        hidden: Tensor,
        context: Tensor,
        document_ids: Tensor,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        rows = in_type_of(
            self, self.encoding(context, training=training)
        )  # (S, D)
        keys = ops.shape(rows)[0]
        padding = ops.sum(ops.cast(document_ids < 0, "int32"), axis=1)  # (B,)
        places = ops.arange(keys, dtype="int32") + padding[:, None]  # (B, S)
        positions = ops.take(rows, ops.minimum(places, keys - 1), axis=0)
        memory_slots = keys - ops.shape(hidden)[1]
        return hidden + positions[:, memory_slots:], context + positions

    def compute_output_spec(
        self,
        hidden: Tensor,
        context: Tensor,
        document_ids: Tensor,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        return (
            keras.KerasTensor(hidden.shape, dtype=self.compute_dtype),
            keras.KerasTensor(context.shape, dtype=self.compute_dtype),
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "encoding": keras.saving.serialize_keras_object(self.encoding),
        }
