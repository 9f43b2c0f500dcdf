"""A stream's compiled functions: reading, feeding and drawing.

Axes: B rows, M memory slots, K tokens of one call.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.generation.token_loop import decode_tokens
from keras_txl.layers.key_value_ring import hold_layers
from keras_txl.layers.key_value_ring import return_layers
from keras_txl.layers.key_value_ring import take_layers
from keras_txl.models.token_decoding import READ_LENGTH
from keras_txl.models.token_decoding import State
from keras_txl.models.token_decoding import TokenDecoder
from keras_txl.models.token_decoding import read_lengths
from keras_txl.models.torch_graph import as_torch_graph


class StreamDecoder:
    """The compiled functions of one stream, called from Python.

    Args:
        lm: a `TransformerXLCausalLM`.
        batch_size: int B.
        memory_length: int M, at least 1.
        sampler: a `keras_hub.samplers.Sampler` that draws token by token.
        seed: int. `None`: the sampler goes on from where it is.
        tokens_per_call: int K.
    """

    def __init__(
        self,
        lm: Any,
        batch_size: int,
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
        decoder = TokenDecoder(lm, memory_length, on_tensorflow="in_place")

        def compiled(function: Any, *key: Any, **options: Any) -> Any:
            # TensorFlow would take rings of another size for those it knows.
            name = (function.__name__, batch_size, memory_length, *key)
            return lm._value_function(name, function, **options)

        step = as_torch_graph(lm, decoder.step)

        def decode(layers: Any, *arguments: Any) -> dict[str, Any]:
            terms, state, *rest = arguments
            result = decode_tokens(
                lambda ids, state: step(ids, state, terms),
                sampler,
                tokens_per_call,
                {**state, "layers": take_layers(layers)},
                *rest,
            )
            state = result["state"]
            kept = return_layers(layers, state["layers"])
            return {**result, "state": {**state, "layers": kept}}

        self._read = compiled(decoder.read)
        self._to_state = compiled(decoder.to_state)
        self._to_memory = compiled(decoder.to_memory)
        self._decode = compiled(
            decode, tokens_per_call, id(sampler), overwrites_first=True
        )
        self._make_terms = compiled(decoder.terms_and_products)
        self._terms: Any = None

    def read_rows(self, rows: Sequence[Any], memory: Memory) -> Memory:
        """Memory after ids of any number, unequal ones as well.

        Args:
            rows: int arrays, one for each row.
            memory: memory value before them.
        """
        longest = max(len(row) for row in rows)
        large, *_ = read_lengths(self.memory_length, None)
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
        return {**state, "layers": hold_layers(state["layers"])}

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
