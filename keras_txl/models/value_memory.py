"""Memory as a value: what `call_with_memory` uses in place of layers.

Axes: B rows, L layers, M memory slots, T segment, D hidden width.
"""

from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.layers.segment_memory import advance
from keras_txl.layers.segment_memory import clear_empty_slots
from keras_txl.layers.segment_memory import empty_memory
from keras_txl.layers.segment_memory import join_memory
from keras_txl.layers.segment_memory import recall
from keras_txl.layers.segment_memory import update_memory


class ValueMemory:
    """A memory value that answers as the `SegmentMemory` layers do."""

    def __init__(self, memory: Memory) -> None:
        self.states = memory["states"]  # (B, L, M, D)
        self.length = memory["length"]  # (B,)
        self.document = memory["document"]  # (B,)
        self.new_states: list[Tensor] = []

    def __call__(
        self, index: int, hidden: Tensor, document_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        slots = ops.shape(self.states)[2]
        if index == 0:  # the counters are the same for all layers
            self.length = recall(self.length, self.document, document_ids)
            self.token_count, self.new_length, self.document = advance(
                self.length, self.document, document_ids, slots
            )
        states = clear_empty_slots(self.states[:, index], self.length)
        context = join_memory(states, hidden)  # (B, M + T, D)
        self.new_states.append(
            update_memory(context, self.token_count, self.new_length, slots)
        )
        return context, self.length

    def updated(self) -> Memory:
        states = ops.stack(self.new_states, axis=1)  # (B, L, M, D)
        return {
            "states": ops.cast(states, self.states.dtype),
            "length": self.new_length,
            "document": self.document,
        }


class ValueMemoryMixin:
    """`call_with_memory` for a model whose `run` asks for contexts."""

    num_layers: int
    hidden_dim: int
    memory_dtype: str
    memory_layers: list[Any]
    normalize_inputs: Any
    run: Any

    def call_with_memory(
        self,
        inputs: Any,
        memory: Memory,
        training: bool = False,
        attention_window: int | None = None,
    ) -> tuple[Tensor, Memory]:
        """Run a segment with memory as a value; no state is kept.

        Args:
            inputs: as in a call; any batch size.
            memory: memory value for the same batch size, see
                `initial_memory`.
            training: bool. Turns dropout on.
            attention_window: int. Keys a token may see, itself included, if
                that is fewer than the model's window. With M + 1 a segment
                of any length equals its tokens fed one at a time.

        Returns:
            Hidden states `(batch_size, segment_length, hidden_dim)` and the
            new memory.

        Raises:
            ValueError: if the memory does not fit the model or the batch.
        """
        inputs = self.normalize_inputs(inputs)
        memory = check_memory(
            memory, inputs["document_ids"], self.num_layers, self.hidden_dim
        )
        value = ValueMemory(memory)
        hidden = self.run(inputs, value, training, attention_window)
        return hidden, value.updated()

    def initial_memory(
        self, batch_size: int, memory_length: int | None = None
    ) -> Memory:
        """An empty memory value: the start of new streams.

        Args:
            batch_size: int. Number of streams.
            memory_length: int. Slots M, in tokens. Defaults to
                `eval_memory_length`.

        Returns:
            Dict of `states (B, L, M, D)`, `length (B,)` and `document (B,)`.
        """
        if memory_length is None:
            memory_length = self.memory_layers[0].slots(training=False)
        return empty_memory(
            check_integer("batch_size", batch_size, 1),
            self.num_layers,
            check_integer("memory_length", memory_length, 0),
            self.hidden_dim,
            self.memory_dtype,
        )


def check_memory(
    memory: Any, token_ids: Tensor, num_layers: int, hidden_dim: int
) -> Memory:
    """Return `memory` as tensors, if it fits the model and the batch.

    Args:
        memory: dict of `states`, `length` and `document`.
        token_ids: tensor of shape `(batch, segment_length)`.
        num_layers: int L of the model.
        hidden_dim: int D of the model.

    Returns:
        The memory value.

    Raises:
        ValueError: if a key is missing, a shape does not fit or a token is
            not read yet.
    """
    keys = {"states", "length", "document"}
    if not isinstance(memory, dict) or keys - set(memory):
        came = sorted(memory) if isinstance(memory, dict) else type(memory)
        raise ValueError(
            "`memory` must be a dict of states, length and document. "
            f"Received: {came}. Call `initial_memory(batch_size)` to start "
            "new streams."
        )
    if "unread_ids" in memory:
        raise ValueError(
            "The memory of a stream ends before its newest token. Received: "
            "memory with unread_ids. Continue it with `generate_stream`, or "
            'read that token first: lm.step(memory.pop("unread_ids"), memory).'
        )
    memory = {
        "states": ops.convert_to_tensor(memory["states"]),
        "length": ops.cast(memory["length"], "int32"),
        "document": ops.cast(memory["document"], "int32"),
    }
    shape = tuple(memory["states"].shape)
    if len(shape) != 4 or (shape[1], shape[3]) != (num_layers, hidden_dim):
        raise ValueError(
            "`memory` belongs to another model. Received: "
            f"states.shape={shape}, expected (batch_size, {num_layers}, "
            f"memory_length, {hidden_dim}). Call "
            "`initial_memory(batch_size)` to start new streams."
        )
    rows = token_ids.shape[0]
    for name, value in memory.items():
        if None not in (value.shape[0], rows) and value.shape[0] != rows:
            raise ValueError(
                "`memory` belongs to another batch size. Received: memory "
                f"{name}.shape={tuple(value.shape)}, token_ids.shape="
                f"{tuple(token_ids.shape)}. Call "
                f"`initial_memory(batch_size={rows})` to start new streams."
            )
    return memory
