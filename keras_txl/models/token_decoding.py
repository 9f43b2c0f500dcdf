"""A model as a step over one token of each row, at constant cost.

With relative positions the state is a ring of keys and values
(`key_value_ring.py`). Absolute positions move with every token, so nothing
can be kept but the memory itself.

Axes: B rows, V vocabulary, M memory slots, S = M + 1 slots.
"""

from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.layers.key_value_attention import terms_by_head
from keras_txl.layers.key_value_ring import LayerRing
from keras_txl.layers.key_value_ring import ring_distances
from keras_txl.layers.key_value_ring import slot_writer
from keras_txl.layers.key_value_ring import to_key_value
from keras_txl.layers.key_value_ring import to_memory
from keras_txl.layers.ring_decoding import decode_token
from keras_txl.layers.ring_decoding import token_products
from keras_txl.models.backbone import TransformerXLBackbone

READ_LENGTH = 64
LARGEST_READ_LENGTH = 512
"""Tokens of a prompt that are read in one call."""

State = dict[str, Any]
"""What a step needs of the past. `layers`, which may be written in place, is
a tuple; all else are small tensors."""


class TokenDecoder:
    """Reads prompts in segments, and then one token of each row at a time.

    A token sees itself and the M tokens before it, in a prompt as in a text:
    as if all were fed one at a time with `call_with_memory`. (With absolute
    positions a prompt is read in segments of 64 tokens.)

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M, at least 1.
        at_most: int. Keys a token may see, itself included, if that is fewer
            than M + 1.
        on_tensorflow: how it writes, see `slot_writer`.
    """

    def __init__(
        self,
        lm: Any,
        memory_length: int,
        at_most: int | None = None,
        on_tensorflow: str = "scatter",
    ) -> None:
        self.lm = lm
        self.backbone: TransformerXLBackbone = lm.backbone
        self.memory_length = memory_length
        self.has_ring = not self.backbone.position.startswith("absolute")
        self.at_most = memory_length + 1 if at_most is None else at_most
        self.write = slot_writer(on_tensorflow)

    def read(
        self, token_ids: Tensor, padding_mask: Tensor, memory: Memory
    ) -> Memory:
        """The memory after a segment, which belongs to the same document."""
        return self.read_segment(token_ids, padding_mask, memory)[1]

    def read_segment(
        self, token_ids: Tensor, padding_mask: Tensor, memory: Memory
    ) -> tuple[Tensor, Memory]:
        """Hidden states of a segment, and the memory after it."""
        document = ops.maximum(memory["document"], 0)[:, None]  # (B, 1)
        return self.backbone.call_with_memory(
            {
                "token_ids": token_ids,
                "document_ids": ops.where(padding_mask, document, -1),
            },
            memory,
            attention_window=self.at_most if self.has_ring else None,
        )

    def read_prompt(
        self,
        token_ids: Tensor,
        count: Tensor,
        memory: Memory,
        keep_hidden: bool = False,
    ) -> tuple[Memory, Tensor | None]:
        """Read the first tokens of each row, segment by segment.

        Args:
            token_ids: int tensor of shape `(batch, length)`.
            count: int32 scalar tensor, tokens to read.
            memory: memory value before them.
            keep_hidden: bool. Whether the hidden states are asked for.

        Returns:
            The memory after them, and `None` or their hidden states
            `(batch, more than length, hidden_dim)`, zeros behind them.
        """
        batch, length = ops.shape(token_ids)
        room = ops.pad(token_ids, [[0, 0], [0, READ_LENGTH]])
        shape = (batch, length + READ_LENGTH, self.backbone.hidden_dim)
        hidden: Any = ()
        if keep_hidden:
            hidden = ops.zeros(shape, self.backbone.compute_dtype)
        begin = ops.zeros((), dtype="int32")
        for size in read_lengths(self.memory_length, length):

            def read_segment(
                begin: Tensor, memory: Memory, hidden: Any, size: int = size
            ) -> tuple[Tensor, Memory, Any]:
                ids = ops.slice(room, ops.stack([0, begin]), (batch, size))
                kept = begin + ops.arange(size, dtype="int32") < count
                states, memory = self.read_segment(
                    ids, ops.broadcast_to(kept, (batch, size)), memory
                )
                if keep_hidden:
                    start = ops.stack([0, begin, 0])
                    hidden = ops.slice_update(hidden, start, states)
                return begin + size, memory, hidden

            rest = size if size > READ_LENGTH else 1  # the last one is padded
            begin, memory, hidden = ops.while_loop(
                lambda begin, *_, rest=rest: begin + rest <= count,
                read_segment,
                (begin, memory, hidden),
            )
        return memory, hidden if keep_hidden else None

    def to_state(self, memory: Memory) -> State:
        """The state of a step that continues a memory."""
        if not self.has_ring:
            return {"layers": (), **memory}
        return to_key_value(self.backbone.transformer_layers, memory)

    def to_memory(self, state: State) -> Memory:
        """The memory that a state stands for."""
        if self.has_ring:
            return to_memory(state)
        return {name: state[name] for name in state if name != "layers"}

    def terms(self) -> tuple[dict[str, Tensor], ...]:
        """For each layer what distances add; fixed as the weights are."""
        if not self.has_ring:
            return ()
        backbone = self.backbone
        room = ops.zeros((1, self.memory_length + 1, 1))  # its length is read
        encoding = None
        if backbone.distance_encoding is not None:
            encoding = backbone.distance_encoding(room)
        return tuple(
            terms_by_head(block.attention.distance_terms(room, encoding))
            for block in backbone.transformer_layers
        )

    def terms_and_products(self) -> tuple[dict[str, Tensor], ...]:
        """The terms, and with them the layers' `token_products`.

        They hold the weights of attention once more, and save time where many
        tokens are fed.
        """
        if not self.has_ring:
            return ()
        blocks = self.backbone.transformer_layers
        return tuple(
            {**terms, **token_products(block)}
            for block, terms in zip(blocks, self.terms(), strict=True)
        )

    def step(
        self, token_ids: Tensor, state: State, terms: Any
    ) -> tuple[Tensor, State]:
        """Feed one token of each row.

        Args:
            token_ids: int32 tensor of shape `(batch, 1)`.
            state: from `to_state` or a step.
            terms: from `terms` or `terms_and_products`.

        Returns:
            Logits `(batch, vocabulary_size)` and the state after the token.
        """
        step = self._ring_step if self.has_ring else self._memory_step
        hidden, state = step(token_ids, state, terms)
        logits = self.lm.head.logits(hidden, ops.zeros_like(token_ids))
        return logits[:, 0], state

    def feed(
        self,
        token_ids: Tensor,
        layers: tuple[LayerRing, ...],
        slot: Tensor,
        length: Tensor,
        terms: Any,
    ) -> tuple[Tensor, tuple[LayerRing, ...]]:
        """Feed one token of each row into the rings of all layers.

        The newest token may be fed again at its slot, and another one in its
        place: what it replaces is out of its sight.

        Args:
            token_ids: int32 tensor of shape `(batch, 1)`.
            layers: the rings.
            slot: int32 scalar tensor, where the token stands, plus any
                number of turns.
            length: int32 tensor of shape `(batch,)`, tokens before it.
            terms: from `terms` or `terms_and_products`.

        Returns:
            Hidden states `(batch, 1, hidden_dim)` and the rings.
        """
        backbone, slots = self.backbone, self.memory_length + 1
        slot = slot % slots
        distances = ring_distances(slot, slots)  # (S,)
        seen = distances <= length[:, None]  # (B, S)
        if backbone.attend_empty_memory:
            seen = ops.ones_like(seen)
        for window in (
            backbone.attention_mask.window(self.memory_length),
            self.at_most,
        ):
            if window is not None:
                seen = ops.logical_and(seen, distances < window)
        hidden = backbone.embed(token_ids)
        new_layers = []
        for block, ring, rows in zip(
            backbone.transformer_layers, layers, terms, strict=True
        ):
            hidden, ring = decode_token(
                block,
                hidden,
                ring,
                rows,
                slot,
                seen[:, None, None],
                self.write,
            )
            new_layers.append(ring)
        return hidden, tuple(new_layers)

    def _ring_step(
        self, token_ids: Tensor, state: State, terms: Any
    ) -> tuple[Tensor, State]:
        slot, length = state["slot"], state["length"]
        hidden, layers = self.feed(
            token_ids, state["layers"], slot, length, terms
        )
        return hidden, {
            "layers": layers,
            "length": ops.minimum(length + 1, self.memory_length),
            "document": ops.maximum(state["document"], 0),
            "slot": (slot + 1) % (self.memory_length + 1),
        }

    def _memory_step(
        self, token_ids: Tensor, state: State, terms: Any
    ) -> tuple[Tensor, State]:
        memory = {name: state[name] for name in state if name != "layers"}
        document_ids = ops.maximum(memory["document"], 0)[:, None]
        inputs = {"token_ids": token_ids, "document_ids": document_ids}
        hidden, memory = self.backbone.call_with_memory(inputs, memory)
        return hidden, {"layers": (), **memory}


def read_lengths(memory_length: Any, longest: Any) -> tuple[int, ...]:
    """Tokens that one call reads of a prompt: many, and those of the rest.

    Args:
        memory_length: int M. Each call reads the memory once, so that a call
            should read about as many tokens.
        longest: int. The longest prompt there can be.
    """
    large = LARGEST_READ_LENGTH
    if isinstance(memory_length, int):
        large = min(memory_length, large)
    if isinstance(longest, int):
        large = min(longest, large)
    return (large, READ_LENGTH) if large > READ_LENGTH else (READ_LENGTH,)
