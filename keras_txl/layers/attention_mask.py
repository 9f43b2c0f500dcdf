"""Which keys a query may see: causality, window, memory, documents.

The valid tokens of a row come first and padding last (`token_packing.py`), so
padding lies in the causal future of every valid token and needs no mask.

Axes: B rows, T segment, M memory slots, S = M + T keys.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.layers.distance_encoding import AS_IN_TRAINING

WINDOW_NAMES = ("memory_length", "memory_length+1")


def attention_mask(
    segment_length: int | Tensor,
    key_length: int | Tensor,
    window: int | Tensor | None = None,
) -> Tensor:
    """A query sees itself and older keys, at most `window` of them.

    Args:
        segment_length: int or scalar tensor T.
        key_length: int or scalar tensor S; query i stands at key S - T + i.
        window: number of keys a query may see, itself included, in tokens.
            `None`: all.

    Returns:
        bool tensor of shape `(1, 1, segment_length, key_length)`.
    """
    positions = key_length - segment_length + ops.arange(segment_length)
    distance = positions[:, None] - ops.arange(key_length)  # (T, S)
    mask = distance >= 0
    if window is not None:
        mask = ops.logical_and(mask, distance < window)
    return mask[None, None]  # (1, 1, T, S)


def document_blocks(document_ids: Tensor) -> Tensor:
    """Number the runs of equal document ids of each row from 0.

    A border lies wherever the id differs from the one before, so equal ids
    that stand apart are different blocks. Padding stays in the block before.

    Args:
        document_ids: int tensor of shape `(batch, segment_length)`, padding
            (-1) last.

    Returns:
        int32 tensor of shape `(batch, segment_length)`.
    """
    document_ids = ops.convert_to_tensor(document_ids)
    previous = ops.concatenate(
        [document_ids[:, :1], document_ids[:, :-1]], axis=1
    )
    border = ops.logical_and(document_ids != previous, document_ids >= 0)
    return ops.cumsum(ops.cast(border, "int32"), axis=1)


def document_mask(
    document_ids: Tensor,
    memory_slots: int | Tensor,
    memory_length: Tensor | None = None,
) -> Tensor:
    """A token sees its own document only, in the segment and in memory.

    Memory belongs to the document of the row's first token (block 0); the
    slots of any other were dropped before (`SegmentMemory`). Padding sees
    nothing.

    Args:
        document_ids: int tensor of shape `(batch, segment_length)`, padding
            (-1) last.
        memory_slots: int or scalar tensor M.
        memory_length: int tensor of shape `(batch,)`, valid slots counted
            from the newest. `None`: every slot counts as valid
            (`attend_empty_memory`).

    Returns:
        bool tensor of shape `(batch, 1, segment_length, key_length)`.
    """
    blocks = document_blocks(document_ids)  # (B, T)
    if memory_length is None:
        memory_length = ops.zeros_like(blocks[:, 0]) + memory_slots
    ages = memory_slots - ops.arange(memory_slots, dtype="int32")  # M, ..., 1
    hidden = ages[None] > memory_length[:, None]  # (B, M)
    key_blocks = ops.concatenate(
        [-ops.cast(hidden, "int32"), blocks], axis=1
    )  # (B, S): 0 for a valid slot, -1 for an invalid one
    query_blocks = ops.where(document_ids < 0, -2, blocks)  # (B, T)
    # `expand_dims` where converters to LiteRT know no slice with `None`.
    seen = ops.expand_dims(query_blocks, 2) == ops.expand_dims(key_blocks, 1)
    return ops.expand_dims(seen, 1)


@keras.saving.register_keras_serializable(package="keras_txl")
class SegmentAttentionMask(keras.layers.Layer):
    """Builds the attention mask of a segment once, for all blocks.

    Args:
        attention_window: keys a query may see, itself included: an int,
            `"memory_length"`, `"memory_length+1"` (resolved against the
            memory in use) or `None` for all.
        eval_attention_window: the same outside training. Defaults to
            `"as_in_training"`.
        attend_empty_memory: bool. Whether slots that hold nothing are seen,
            as zeros.
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        context: tensor of shape `(batch_size, key_length, hidden_dim)`; only
            its length is read.
        document_ids: int tensor of shape `(batch_size, segment_length)`,
            padding (-1) last.
        memory_length: int tensor of shape `(batch_size,)`, valid slots.
        training: bool. Chooses between the two windows.
        at_most: int. Keys a query may see in this call, if that is fewer.

    Returns:
        bool tensor of shape `(batch_size, 1, segment_length, key_length)`.
    """

    def __init__(
        self,
        attention_window: int | str | None = None,
        eval_attention_window: int | str | None = AS_IN_TRAINING,
        attend_empty_memory: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_window("attention_window", attention_window)
        if eval_attention_window != AS_IN_TRAINING:
            check_window("eval_attention_window", eval_attention_window)
        self.attention_window = attention_window
        self.eval_attention_window = eval_attention_window
        self.attend_empty_memory = bool(attend_empty_memory)
        self.built = True

    def call(
        self,
        context: Tensor,
        document_ids: Tensor,
        memory_length: Tensor,
        training: bool | None = None,
        at_most: int | None = None,
    ) -> Tensor:
        keys = ops.shape(context)[1]
        queries = ops.shape(document_ids)[1]
        slots = keys - queries
        visible = None if self.attend_empty_memory else memory_length
        window = self.window(slots, training)
        if at_most is not None:
            window = at_most if window is None else ops.minimum(window, at_most)
        return ops.logical_and(
            attention_mask(queries, keys, window),
            document_mask(document_ids, slots, visible),
        )

    def window_setting(self, training: bool | None = None) -> int | str | None:
        """The window in use as it was given: a number, a name or `None`."""
        if training or self.eval_attention_window == AS_IN_TRAINING:
            return self.attention_window
        return self.eval_attention_window

    def window(
        self, memory_slots: int | Tensor, training: bool | None = None
    ) -> int | Tensor | None:
        """Number of keys that a query sees with this many memory slots."""
        window: Any = self.window_setting(training)
        if window == "memory_length":  # a query always sees itself
            return ops.maximum(memory_slots, 1)
        if window == "memory_length+1":
            return memory_slots + 1
        return window

    def compute_output_spec(
        self,
        context: Tensor,
        document_ids: Tensor,
        memory_length: Tensor,
        training: bool | None = None,
        at_most: int | None = None,
    ) -> Tensor:
        batch, queries = document_ids.shape
        return keras.KerasTensor(
            (batch, 1, queries, context.shape[1]), dtype="bool"
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "attention_window": self.attention_window,
            "eval_attention_window": self.eval_attention_window,
            "attend_empty_memory": self.attend_empty_memory,
        }


def check_window(name: str, window: Any) -> None:
    """Raise `ValueError` unless `window` is a valid attention window."""
    if window is None or window in WINDOW_NAMES:
        return
    if isinstance(window, str):
        raise ValueError(
            f"`{name}` must be None, a number of keys, or one of "
            f"{', '.join(map(repr, WINDOW_NAMES))}. "
            f"Received: {name}={window!r}."
        )
    check_integer(name, window, 1)
