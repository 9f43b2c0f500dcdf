"""Segment-level recurrence: the hidden states of the last M tokens (paper 3.2).

The pure functions come first; `SegmentMemory` is the only layer of the package
that keeps anything between calls.

Axes: B rows, L layers, M memory slots, T segment, D hidden width.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.layers.attention_mask import document_blocks
from keras_txl.layers.bank_placement import check_batch
from keras_txl.layers.bank_placement import variable_rows
from keras_txl.layers.memory_bank import NO_DOCUMENT
from keras_txl.layers.memory_bank import assign_rows
from keras_txl.layers.memory_bank import check_bank
from keras_txl.layers.memory_bank import reset_rows
from keras_txl.layers.memory_bank import state_variable
from keras_txl.layers.token_packing import take_rows


def join_memory(states: Tensor, hidden: Tensor) -> Tensor:
    """Put the memory of a layer before its segment, without gradient.

    Args:
        states: float tensor of shape `(batch, memory_slots, hidden_dim)`,
            oldest first.
        hidden: float tensor of shape `(batch, segment_length, hidden_dim)`.

    Returns:
        Tensor of shape `(batch, memory_slots + segment_length, hidden_dim)`
        and the dtype of `hidden`.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.2.
    """
    hidden = ops.convert_to_tensor(hidden)
    states = ops.stop_gradient(ops.convert_to_tensor(states))
    if states.shape[1] == 0:
        return hidden
    states = ops.cast(states, hidden.dtype)
    return ops.concatenate([states, hidden], axis=1)  # (B, M + T, D)


def update_memory(
    context: Tensor,
    token_count: Tensor,
    length: Tensor,
    memory_slots: int | Tensor,
) -> Tensor:
    """The last M rows of memory and segment, padding left out.

    Args:
        context: float tensor of shape `(batch, memory_slots +
            segment_length, hidden_dim)`, valid tokens first, padding last.
        token_count: int tensor of shape `(batch,)`, valid tokens of the
            segment.
        length: int tensor of shape `(batch,)`, slots that the new memory
            holds; the others become zeros.
        memory_slots: int M.

    Returns:
        Tensor of shape `(batch, memory_slots, hidden_dim)`, oldest first,
        without gradient.
    """
    slots = ops.arange(memory_slots, dtype="int32")
    rows = token_count[:, None] + slots  # (B, M)
    states = take_rows(ops.stop_gradient(context), rows)  # (B, M, D)
    return clear_empty_slots(states, length)


def clear_empty_slots(states: Tensor, length: Tensor) -> Tensor:
    """`states (B, M, D)` with zeros in all but the newest `length (B,)`."""
    slots = ops.shape(states)[1]
    ages = slots - ops.arange(slots, dtype="int32")  # M, ..., 1
    holds = ages[None] <= length[:, None]  # (B, M)
    return ops.where(holds[..., None], states, 0)


def recall(length: Tensor, document: Tensor, document_ids: Tensor) -> Tensor:
    """Valid slots that the segment may see: those of its first document.

    Args:
        length: int tensor of shape `(batch,)`, valid slots.
        document: int tensor of shape `(batch,)`, the document they belong to.
        document_ids: int tensor of shape `(batch, segment_length)`, padding
            (-1) last. A row of padding alone keeps its memory.

    Returns:
        int32 tensor of shape `(batch,)`.
    """
    first = ops.convert_to_tensor(document_ids)[:, 0]
    keeps = ops.logical_or(first == document, first < 0)
    return ops.where(keeps, length, 0)


def advance(
    length: Tensor,
    document: Tensor,
    document_ids: Tensor,
    memory_slots: int | Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Count what the segment adds to a memory.

    Args:
        length: int tensor of shape `(batch,)` from `recall`.
        document: int tensor of shape `(batch,)`, the document of the memory.
        document_ids: int tensor of shape `(batch, segment_length)`, padding
            (-1) last.
        memory_slots: int M.

    Returns:
        Three int32 tensors of shape `(batch,)`: valid tokens of the segment,
        valid slots of the new memory, and the document they belong to.
    """
    document_ids = ops.convert_to_tensor(document_ids)
    valid = document_ids >= 0  # (B, T)
    token_count = ops.sum(ops.cast(valid, "int32"), axis=1)
    blocks = document_blocks(document_ids)
    newest = blocks == blocks[:, -1:]  # the last document of the row
    added = ops.sum(ops.cast(ops.logical_and(valid, newest), "int32"), axis=1)
    kept = ops.where(blocks[:, -1] == 0, length, 0)
    places = ops.arange(ops.shape(document_ids)[1], dtype="int32")
    last = ops.sum(
        ops.where(places == token_count[:, None] - 1, document_ids, 0), axis=1
    )
    return (
        token_count,
        ops.cast(ops.minimum(kept + added, memory_slots), "int32"),
        ops.cast(ops.where(token_count > 0, last, document), "int32"),
    )


def empty_memory(
    batch_size: int,
    num_layers: int,
    memory_slots: int,
    hidden_dim: int,
    dtype: str = "float32",
) -> Memory:
    """A memory value that holds nothing: the start of new streams.

    Args:
        batch_size: int B.
        num_layers: int L.
        memory_slots: int M, in tokens.
        hidden_dim: int D.
        dtype: of the states.

    Returns:
        Dict of `states (B, L, M, D)`, `length (B,)` and `document (B,)`.
    """
    return {
        "states": ops.zeros(
            (batch_size, num_layers, memory_slots, hidden_dim), dtype=dtype
        ),
        "length": ops.zeros((batch_size,), dtype="int32"),
        "document": ops.full((batch_size,), NO_DOCUMENT, dtype="int32"),
    }


@keras.saving.register_keras_serializable(package="keras_txl")
class SegmentMemory(keras.layers.Layer):
    """Keeps the hidden states of the last tokens of each stream between calls.

    It holds two banks, one for `training=True` and one for everything else,
    so that an evaluation can never touch the training memory. Rows `[0, b)`
    of a batch use rows `[0, b)` of a bank; absent rows keep their memory.
    Memory is no weight: it is left out of weight files and presets, and no
    gradient flows into it.

    Args:
        memory_length: int. Slots M of the training bank, in tokens.
        batch_size: int or `None`. Rows of the banks. `None`: nothing is
            carried from call to call.
        eval_memory_length: int or `None`. Slots of the evaluation bank.
            `None`: as in training.
        attend_empty_memory: bool. Whether the caller's mask shows slots that
            hold nothing (as the zeros they are).
        memory_dtype: dtype of the stored states.
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor of shape `(batch_size, segment_length,
            hidden_dim)`.
        document_ids: int tensor of shape `(batch_size, segment_length)`, the
            document of each token; padding is -1 and comes last. `None`: one
            document, no padding.
        training: bool. Chooses the bank.

    Returns:
        `context`, float tensor of shape `(batch_size, memory slots +
        segment_length, hidden_dim)`, and `memory_length`, int32 tensor of
        shape `(batch_size,)`: how many of the slots, counted from the newest,
        this segment may see.

    Raises:
        ValueError: if a batch has more rows than the banks, or fewer where
            several devices share it.

    Example:
    ```python
    memory = keras_txl.layers.SegmentMemory(memory_length=4, batch_size=1)
    segment = keras.random.normal((1, 3, 8))
    context, length = memory(segment)  # (1, 7, 8), [0]
    context, length = memory(segment)  # (1, 7, 8), [3]
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.2.
    """

    def __init__(
        self,
        memory_length: int,
        batch_size: int | None = None,
        eval_memory_length: int | None = None,
        attend_empty_memory: bool = False,
        memory_dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.memory_length = check_integer("memory_length", memory_length, 0)
        self.batch_size = check_optional_integer("batch_size", batch_size, 1)
        self.eval_memory_length = check_optional_integer(
            "eval_memory_length", eval_memory_length, 0
        )
        self.attend_empty_memory = bool(attend_empty_memory)
        # Slots that training reads at most; see `training.WidenMemory`.
        self.reading_limit: int | None = None
        self.memory_dtype = keras.backend.standardize_dtype(memory_dtype)
        if "float" not in self.memory_dtype:
            raise ValueError(
                "`memory_dtype` must be a float type. Received: "
                f"memory_dtype={memory_dtype!r}. Use 'float32' or 'bfloat16'."
            )

    def slots(self, training: bool | None = False) -> int:
        """Slots M of the bank that `training` chooses, in tokens."""
        if training or self.eval_memory_length is None:
            return self.memory_length
        return self.eval_memory_length

    def build(self, hidden_shape: Any, document_ids_shape: Any = None) -> None:
        hidden_dim = hidden_shape[-1]
        if self.batch_size is not None:
            rows = variable_rows(self.batch_size)
            self.train_states = self._states("train", rows, hidden_dim)
            self.train_length = self._counter("train_length", rows, 0)
            self.train_document = self._counter(
                "train_document", rows, NO_DOCUMENT
            )
            self.eval_states = self._states("eval", rows, hidden_dim)
            self.eval_length = self._counter("eval_length", rows, 0)
            self.eval_document = self._counter(
                "eval_document", rows, NO_DOCUMENT
            )
        self.built = True

    def _states(self, bank: str, rows: int, hidden_dim: int) -> keras.Variable:
        shape = (rows, self.slots(bank == "train"), hidden_dim)
        return state_variable(f"{bank}_states", shape, 0, self.memory_dtype)

    def _counter(self, name: str, rows: int, value: int) -> keras.Variable:
        return state_variable(name, (rows,), value, "int32")

    def bank(
        self, training: bool | None
    ) -> tuple[keras.Variable, keras.Variable, keras.Variable]:
        """States, length and document variables of a bank."""
        if training:
            return self.train_states, self.train_length, self.train_document
        return self.eval_states, self.eval_length, self.eval_document

    def call(
        self,
        hidden: Tensor,
        document_ids: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        if document_ids is None:
            # Zeros, but made of the values: see `normalize_inputs`.
            first = hidden[..., 0]
            document_ids = ops.cast(ops.not_equal(first, first), "int32") * 0
        slots = self.slots(training)
        if self.batch_size is None or slots == 0:
            return self._without_bank(hidden, slots)
        bank_rows = self.bank(training)[0].shape[0]
        hidden = check_batch(hidden, bank_rows, self.batch_size)
        rows = ops.shape(hidden)[0]
        states, length, document = (
            # A copy: autograd of PyTorch must not see the later assignment.
            ops.stop_gradient(ops.copy(variable.value))[:rows]
            for variable in self.bank(training)
        )
        length = recall(length, document, document_ids)
        states = clear_empty_slots(states, length)
        context = join_memory(states, hidden)  # (B, M + T, D)
        token_count, new_length, new_document = advance(
            length, document, document_ids, slots
        )
        new_states = update_memory(context, token_count, new_length, slots)
        for variable, value in zip(
            self.bank(training),
            (new_states, new_length, new_document),
            strict=True,
        ):
            assign_rows(variable, value, rows)
        if training and self.reading_limit is not None:
            length = ops.minimum(length, self.reading_limit)
            context = join_memory(clear_empty_slots(states, length), hidden)
        return context, length

    def _without_bank(
        self, hidden: Tensor, slots: int
    ) -> tuple[Tensor, Tensor]:
        batch, _, hidden_dim = ops.shape(hidden)
        length = ops.zeros((batch,), dtype="int32")
        if self.attend_empty_memory and slots:
            empty = ops.zeros((batch, slots, hidden_dim), dtype=hidden.dtype)
            return join_memory(empty, hidden), length
        return hidden, length

    def reset_state(
        self, bank: str = "all", rows: Sequence[int] | None = None
    ) -> None:
        """Forget: the chosen streams start anew.

        Args:
            bank: `"train"`, `"eval"` or `"all"`.
            rows: indices of the streams to reset. `None`: all.

        Raises:
            ValueError: for an unknown bank or a row out of range.
        """
        chosen = check_bank(bank)
        if self.batch_size is None or not self.built:
            return
        for name in chosen:
            states, length, document = self.bank(name == "train")
            for variable, empty in (
                (states, 0),
                (length, 0),
                (document, NO_DOCUMENT),
            ):
                reset_rows(variable, empty, rows, self.batch_size)

    def compute_output_spec(
        self,
        hidden: Tensor,
        document_ids: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        batch, length, hidden_dim = hidden.shape
        # The two banks may differ in length, so the sum is known to neither.
        keys = length if self._adds_no_slots() else None
        return (
            keras.KerasTensor(
                (batch, keys, hidden_dim), dtype=self.compute_dtype
            ),
            keras.KerasTensor((batch,), dtype="int32"),
        )

    def _adds_no_slots(self) -> bool:
        if self.slots(True) == 0 and self.slots(False) == 0:
            return True
        return self.batch_size is None and not self.attend_empty_memory

    def save_own_variables(self, store: Any) -> None:
        """Memory belongs to a run, not to the weights: nothing is stored."""

    def load_own_variables(self, store: Any) -> None:
        """See `save_own_variables`."""

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "memory_length": self.memory_length,
            "batch_size": self.batch_size,
            "eval_memory_length": self.eval_memory_length,
            "attend_empty_memory": self.attend_empty_memory,
            "memory_dtype": self.memory_dtype,
        }
