"""What a language model writes: texts of a length, or one without end.

Axes: B rows, M memory slots, P tokens of a prompt.
"""

import functools
from typing import Any

import keras_hub
import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.generation.decoding import sample_tokens
from keras_txl.generation.decoding import shortest_prompt
from keras_txl.generation.incremental_text import IncrementalText
from keras_txl.generation.token_stream import TextStream
from keras_txl.generation.token_stream import TokenStream
from keras_txl.models.prompts import check_prompts
from keras_txl.models.stream_decoding import StreamDecoder
from keras_txl.models.text_decoding import read_text
from keras_txl.models.text_encoding import encode_texts
from keras_txl.models.token_inputs import check_vocabulary


class TextGenerationMixin:
    """`generate` and `generate_stream` for a causal language model."""

    backbone: Any
    preprocessor: Any
    head: Any
    sampler: Any
    initial_memory: Any
    _check_memory: Any
    _past: Memory | None = None

    def generate(
        self,
        inputs: Any,
        max_length: int | None = None,
        stop_token_ids: Any = "auto",
        strip_prompt: bool = False,
        memory: Memory | None = None,
    ) -> Any:
        """Continue prompts, see `keras_hub.models.CausalLM.generate`.

        Each token sees itself and the `eval_memory_length` tokens before it
        (all tokens before it, if that is 0). Keys and values of these stand
        in a ring of fixed size, and prompts are read in segments: a token
        costs the same whatever `max_length` is. With absolute positions the
        whole text is run anew for each token.

        Args:
            inputs: str, list of str, or without a preprocessor a dict of
                `token_ids` and `padding_mask`, padded to the wanted length.
            max_length: int. Tokens of prompt and continuation. Defaults to
                the preprocessor's `sequence_length`.
            stop_token_ids: ids that end a text. `"auto"`: the tokenizer's end
                token, if it has one. `None`: none.
            strip_prompt: bool. Whether to return the continuation alone.
            memory: memory value before the prompts, from `step`; a row for
                each. `None`: no past.

        Returns:
            str, list of str, or a dict of arrays, as the inputs.

        Raises:
            ValueError: if a prompt is empty or has ids outside the
                vocabulary, or `memory` does not fit.
        """
        if stop_token_ids == "auto" and self.preprocessor is not None:
            end_token_id = self.preprocessor.tokenizer.end_token_id
            stop_token_ids = None if end_token_id is None else [end_token_id]
        check_prompts(inputs)
        if isinstance(inputs, dict):
            check_vocabulary(inputs, self.backbone.vocabulary_size)
        self._past = memory
        try:
            return super().generate(  # type: ignore[misc]
                inputs, max_length, stop_token_ids, strip_prompt
            )
        finally:
            self._past = None

    def make_generate_function(self) -> Any:
        """The compiled `generate_step`, which continues a memory as well."""
        function = super().make_generate_function()  # type: ignore[misc]
        past = self._past
        if past is None:
            return function

        def continue_memory(inputs: Any, stop_token_ids: Any = None) -> Any:
            memory = self._check_memory(past, np.asarray(inputs["token_ids"]))
            return function({**inputs, "memory": memory}, stop_token_ids)

        return continue_memory

    def generate_step(
        self, inputs: dict[str, Tensor], stop_token_ids: Any = None
    ) -> dict[str, Tensor]:
        """Continue one batch of prompts, see `generate`.

        Args:
            inputs: dict of int `token_ids` and bool `padding_mask` of shape
                `(batch_size, max_length)`; prompts stand on the left.
            stop_token_ids: ids that end a text, or `None`.

        Returns:
            Dict of the same keys and shapes, continued.
        """
        token_ids = inputs["token_ids"]
        step, cache, hidden_states = read_text(
            self,
            token_ids,
            shortest_prompt(inputs["padding_mask"]),
            inputs.get("memory"),
            keep_hidden=_compares_states(self.sampler),
        )
        return sample_tokens(
            step,
            cache,
            self.sampler,
            token_ids,
            inputs["padding_mask"],
            hidden_states,
            stop_token_ids,
            model=self,
        )

    def generate_stream(
        self,
        prompt: Any = "",
        memory: Memory | None = None,
        sampler: Any = None,
        seed: int | None = None,
        max_new_tokens: int | None = None,
        stop_token_ids: Any = "auto",
        memory_length: int | None = None,
        tokens_per_call: int = 1,
    ) -> TextStream | TokenStream:
        """Continue a text without end, at constant cost a token.

        Every token sees itself and the M tokens before it, however long the
        text grows. Keys and values of these stand in a ring of fixed size
        and hold for the weights of the moment at which the stream begins.

        Args:
            prompt: str, of any length; or int ids of shape `(length,)` or
                `(batch_size, length)`, or a list of rows of any lengths.
            memory: memory value of another stream or of `step`, which is
                continued. `None`: no past.
            sampler: a `keras_hub.samplers` sampler that draws token by
                token, or its name. `None`: the one given to `compile`.
            seed: int. Of the draws. `None`: the sampler goes on from where
                it is.
            max_new_tokens: int. Tokens after which it ends, counted anew
                after each `send_text`. `None`: never.
            stop_token_ids: ids that end a text, and are no part of it.
                `"auto"`: the tokenizer's end token, if it has one. `None`:
                none.
            memory_length: int. M, in tokens. Defaults to the one of
                `memory`, or to `eval_memory_length`.
            tokens_per_call: int. Tokens that one compiled call draws and one
                step of the iterator gives out.

        Returns:
            An iterator over str (`TextStream`), or for ids over int arrays
            `(batch_size, tokens)` (`TokenStream`).

        Raises:
            ValueError: if the sampler searches over whole texts, if there is
                nothing to continue, or if there is no memory to keep it in.

        Example:
        ```python
        stream = lm.generate_stream([1, 2, 3], sampler="top_k", seed=0)
        first, second = next(stream), next(stream)  # of shape (1, 1)
        keras_txl.generation.save_memory("story.npz", stream.memory, lm)
        ```
        """
        check_integer("tokens_per_call", tokens_per_call, 1)
        check_optional_integer("max_new_tokens", max_new_tokens, 0)
        sampler = _check_sampler(self.sampler if sampler is None else sampler)
        is_text = isinstance(prompt, str)
        rows = encode_texts(
            [prompt] if is_text else _rows(prompt),
            self.preprocessor,
            self.backbone.vocabulary_size,
            start=memory is None,  # where a text has no past
            end=False,
        )
        tokenizer: Any = getattr(self.preprocessor, "tokenizer", None)
        if isinstance(stop_token_ids, str):
            end = getattr(tokenizer, "end_token_id", None)
            stop_token_ids = None if end is None else [end]
        stops = tuple(int(token) for token in stop_token_ids or ())
        memory = self._stream_memory(memory, len(rows), memory_length)
        decoder = StreamDecoder(
            self,
            len(rows),
            memory["states"].shape[2],
            sampler,
            seed,
            tokens_per_call,
        )
        tokens = TokenStream(decoder, memory, rows, max_new_tokens, stops)
        if not is_text:
            return tokens
        unread = np.ravel(memory.get("unread_ids", ())).tolist()
        text = IncrementalText(
            tokenizer.detokenize, [*unread, *rows[0].tolist()]
        )
        text.held += np.ravel(memory.get("unsaid_ids", ())).tolist()
        return TextStream(tokens, tokenizer, text, stops)

    def _stream_memory(
        self, memory: Memory | None, rows: int, memory_length: int | None
    ) -> Memory:
        check_optional_integer("memory_length", memory_length, 1)
        extra = {}
        if memory is None:
            memory = self.initial_memory(rows, memory_length)
        else:
            extra = {
                name: memory[name]
                for name in ("unread_ids", "unsaid_ids")
                if name in memory
            }
            memory = self._check_memory(
                {name: memory[name] for name in memory if name not in extra},
                np.zeros((rows, 1)),
            )
        slots = memory["states"].shape[2]
        if slots == 0:
            raise ValueError(
                "A text without end needs a memory of bounded length. "
                "Received: memory_length=0 of the model. Pass "
                "memory_length=..., in tokens."
            )
        if memory_length not in (None, slots):
            raise ValueError(
                "`memory_length` must be that of `memory`. Received: "
                f"memory_length={memory_length}, memory of {slots} tokens. "
                "Leave memory_length out."
            )
        return {**memory, **extra}


def _rows(prompt: Any) -> list[Any]:
    """The rows of a prompt of ids: one, an array of them, or a list."""
    if isinstance(prompt, (list, tuple)):
        one = not any(np.ndim(row) for row in prompt)
        return [prompt] if one else list(prompt)
    ids = np.asarray(ops.convert_to_numpy(prompt))
    return [ids] if ids.ndim < 2 else list(ids)


def _check_sampler(sampler: Any) -> Any:
    """Return the sampler, if it draws one token after the other."""
    if isinstance(sampler, str):
        sampler = _named_sampler(sampler)
    if not _draws_token_by_token(sampler):
        raise ValueError(
            "A stream needs a sampler that draws token by token: greedy, "
            "random, top_k or top_p. Received: "
            f"{type(sampler).__name__}, which searches over whole texts. Use "
            "`generate` with it."
        )
    return sampler


def _draws_token_by_token(sampler: Any) -> bool:
    base = keras_hub.samplers.Sampler
    return isinstance(sampler, base) and type(sampler).__call__ is base.__call__


def _compares_states(sampler: Any) -> bool:
    """Whether a sampler may use the hidden states of the prompt."""
    return not (
        _draws_token_by_token(sampler)
        or isinstance(sampler, keras_hub.samplers.BeamSampler)
    )


@functools.cache
def _named_sampler(name: str) -> Any:
    """One object a name: a step is compiled for each sampler."""
    return keras_hub.samplers.get(name)
