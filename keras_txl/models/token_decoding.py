"""A model as a step over one token of each row, at constant cost.

With relative positions the state is a ring of keys and values
(`key_value_ring.py`). Absolute positions move with every token, so nothing
can be kept but the memory itself.

Axes: B rows, V vocabulary, M memory slots, S = M + 1 slots.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.generation.token_loop import decode_tokens
from keras_txl.layers.key_value_attention import terms_by_head
from keras_txl.layers.key_value_ring import decode_token
from keras_txl.layers.key_value_ring import ring_distances
from keras_txl.layers.key_value_ring import to_key_value
from keras_txl.layers.key_value_ring import to_memory
from keras_txl.layers.key_value_ring import writable
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
    """

    def __init__(self, lm: Any, memory_length: int) -> None:
        self.lm = lm
        self.backbone: TransformerXLBackbone = lm.backbone
        self.memory_length = memory_length
        self.has_ring = not self.backbone.position.startswith("absolute")

    def read(
        self, token_ids: Tensor, padding_mask: Tensor, memory: Memory
    ) -> Memory:
        """The memory after a segment, which belongs to the same document."""
        document = ops.maximum(memory["document"], 0)[:, None]  # (B, 1)
        _, memory = self.backbone.call_with_memory(
            {
                "token_ids": token_ids,
                "document_ids": ops.where(padding_mask, document, -1),
            },
            memory,
            attention_window=self.memory_length + 1 if self.has_ring else None,
        )
        return memory

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

    def step(
        self, token_ids: Tensor, state: State, terms: Any
    ) -> tuple[Tensor, State]:
        """Feed one token of each row.

        Args:
            token_ids: int32 tensor of shape `(batch, 1)`.
            state: from `to_state` or a step.
            terms: from `terms`.

        Returns:
            Logits `(batch, vocabulary_size)` and the state after the token.
        """
        step = self._ring_step if self.has_ring else self._memory_step
        hidden, state = step(token_ids, state, terms)
        logits = self.lm.head.logits(hidden, ops.zeros_like(token_ids))
        return logits[:, 0], state

    def _ring_step(
        self, token_ids: Tensor, state: State, terms: Any
    ) -> tuple[Tensor, State]:
        backbone, slots = self.backbone, self.memory_length + 1
        slot, length = state["slot"], state["length"]
        distances = ring_distances(slot, slots)  # (S,)
        seen = distances <= length[:, None]  # (B, S)
        if backbone.attend_empty_memory:
            seen = ops.ones_like(seen)
        window = backbone.attention_mask.window(self.memory_length)
        if window is not None:
            seen = ops.logical_and(seen, distances < window)
        hidden = backbone.embed(token_ids)
        layers = []
        for block, ring, rows in zip(
            backbone.transformer_layers, state["layers"], terms, strict=True
        ):
            hidden, ring = decode_token(
                block, hidden, ring, rows, slot, seen[:, None, None]
            )
            layers.append(ring)
        return hidden, {
            "layers": tuple(layers),
            "length": ops.minimum(length + 1, self.memory_length),
            "document": ops.maximum(state["document"], 0),
            "slot": (slot + 1) % slots,
        }

    def _memory_step(
        self, token_ids: Tensor, state: State, terms: Any
    ) -> tuple[Tensor, State]:
        memory = {name: state[name] for name in state if name != "layers"}
        document_ids = ops.maximum(memory["document"], 0)[:, None]
        inputs = {"token_ids": token_ids, "document_ids": document_ids}
        hidden, memory = self.backbone.call_with_memory(inputs, memory)
        return hidden, {"layers": (), **memory}


class StreamDecoder:
    """The compiled functions of one stream, called from Python.

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M, at least 1.
        sampler: a `keras_hub.samplers.Sampler` that draws token by token.
        seed: int. `None`: the sampler goes on from where it is.
        tokens_per_call: int K.
    """

    def __init__(
        self,
        lm: Any,
        memory_length: int,
        sampler: Any,
        seed: int | None,
        tokens_per_call: int,
    ) -> None:
        self.sampler = sampler
        self.tokens_per_call = tokens_per_call
        self.memory_length = memory_length
        self.shares_seed = seed is None
        self.seeds = tuple(
            variable.value
            if seed is None
            else keras.random.SeedGenerator(seed).state.value
            for variable in sampler.variables
        )
        decoder = TokenDecoder(lm, memory_length)

        def compiled(function: Any, *key: Any, **options: Any) -> Any:
            name = (function.__name__, memory_length, *key)
            return lm._value_function(name, function, **options)

        def decode(layers: Any, *arguments: Any) -> dict[str, Any]:
            terms, state, *rest = arguments
            return decode_tokens(
                lambda ids, state: decoder.step(ids, state, terms),
                sampler,
                tokens_per_call,
                {**state, "layers": layers},
                *rest,
            )

        self._read = compiled(decoder.read)
        self._to_state = compiled(decoder.to_state)
        self._to_memory = compiled(decoder.to_memory)
        self._decode = compiled(
            decode, tokens_per_call, id(sampler), overwrites_first=True
        )
        self._make_terms = compiled(decoder.terms)
        self._terms: Any = None

    def read_rows(self, rows: Sequence[Any], memory: Memory) -> Memory:
        """Memory after ids of any number, unequal ones as well.

        Args:
            rows: int arrays, one for each row.
            memory: memory value before them.
        """
        longest = max(len(row) for row in rows)
        large = min(max(READ_LENGTH, self.memory_length), LARGEST_READ_LENGTH)
        begin = 0
        while begin < longest:
            length = large if longest - begin >= large else READ_LENGTH
            ids = np.zeros((len(rows), length), "int32")
            mask = np.zeros(ids.shape, "bool")
            for row, target, keep in zip(rows, ids, mask, strict=True):
                piece = row[begin : begin + length]
                target[: len(piece)] = piece
                keep[: len(piece)] = True
            memory = self._read(
                ops.convert_to_tensor(ids), ops.convert_to_tensor(mask), memory
            )
            begin += length
        return memory

    def start(self, memory: Memory) -> State:
        """The state of a step behind a memory."""
        if self._terms is None:
            self._terms = self._make_terms()
        state = self._to_state(memory)
        return {**state, "layers": writable(state["layers"])}

    def memory_of(self, state: State) -> Memory:
        """The memory that a state stands for."""
        return self._to_memory(state)

    def decode(
        self,
        state: State,
        token_ids: Any,
        limit: int | None,
        stopped: Any,
        stop_token_ids: Any,
    ) -> tuple[Any, Any, State]:
        """Draw up to `tokens_per_call` tokens for each row.

        Args:
            state: from `start` or the last call, which it may overwrite.
            token_ids: int32 array `(batch, 1)`, the newest of each row.
            limit: int. The most tokens to draw, or `None`.
            stopped: bool array `(batch,)`.
            stop_token_ids: int32 array.

        Returns:
            int32 array `(batch, tokens)`, the rows that have stopped, and the
            new state.
        """
        most = self.tokens_per_call
        small = {name: state[name] for name in state if name != "layers"}
        result = self._decode(
            state["layers"],
            self._terms,
            small,
            ops.convert_to_tensor(token_ids),
            ops.convert_to_tensor(
                most if limit is None else min(limit, most), dtype="int32"
            ),
            ops.convert_to_tensor(stopped),
            ops.convert_to_tensor(stop_token_ids),
            self.seeds,
        )
        self.seeds = result["seeds"]
        if self.shares_seed:
            for variable, value in zip(
                self.sampler.variables, self.seeds, strict=True
            ):
                variable.assign(value)
        count = int(result["count"])
        layers = result["state"]["layers"] or state["layers"]
        return (
            ops.convert_to_numpy(result["drawn"])[:, :count],
            ops.convert_to_numpy(result["stopped"]),
            {**result["state"], "layers": layers},
        )
