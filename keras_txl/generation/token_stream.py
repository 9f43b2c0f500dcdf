"""Endless generation seen from outside: an iterator over ids or over text.

Axes: B rows, M memory slots.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_txl.aliases import Memory
from keras_txl.generation.incremental_text import IncrementalText

Rows = Sequence[Any]
"""One sequence of token ids for each row, of any lengths."""


class TokenStream:
    """Continues rows of token ids without end, at constant cost a token.

    It is made by `TransformerXLCausalLM.generate_stream`.

    Args:
        decoder: reads ids into a memory and decodes from it.
        memory: memory value before the prompt.
        prompt: ids of each row.
        max_new_tokens: int. Tokens after which it ends. `None`: never.
        stop_token_ids: ids that end a row.

    Yields:
        int32 array of shape `(batch_size, tokens)`: the next tokens of each
        row. It ends when each row has had a stop token; what a row says
        behind its own means nothing.
    """

    def __init__(
        self,
        decoder: Any,
        memory: Memory,
        prompt: Rows,
        max_new_tokens: int | None = None,
        stop_token_ids: Sequence[int] = (),
    ) -> None:
        memory = dict(memory)
        unread = memory.pop("unread_ids", None)
        memory.pop("unsaid_ids", None)
        self._decoder = decoder
        self._memory: Memory | None = memory
        self._state: Any = None
        self._unread: Any = None if unread is None else np.asarray(unread)
        self._stop_token_ids = np.array(stop_token_ids, "int32")
        self._max_new_tokens = max_new_tokens
        self.send(prompt)

    @property
    def memory(self) -> Memory:
        """Memory as of now: that of the model, and the ids not in it yet.

        `unread_ids` `(batch_size, 1)` is the newest token of each row, which
        is read when the next one is generated.
        """
        return {**self._current_memory(), "unread_ids": self._unread}

    def send(self, rows: Rows) -> None:
        """Let more ids follow; generation goes on behind them.

        `max_new_tokens` counts from here, and rows that had ended go on.

        Args:
            rows: ids of each row; they may be empty if there was something
                before.

        Raises:
            ValueError: if a row has nothing to continue.
        """
        arrays = [np.asarray(row, "int32").reshape(-1) for row in rows]
        if self._unread is not None:
            arrays = [
                np.concatenate([old, new])
                for old, new in zip(self._unread, arrays, strict=True)
            ]
        if not all(len(row) for row in arrays):
            raise ValueError(
                "There is nothing to continue. Received: an empty prompt and "
                "no memory of a stream. Pass some text or ids, for example "
                '"\\n".'
            )
        if any(len(row) > 1 for row in arrays):
            self._memory, self._state = (
                self._decoder.read_rows(
                    [row[:-1] for row in arrays], self._current_memory()
                ),
                None,
            )
        self._unread = np.stack([row[-1:] for row in arrays])
        self._stopped = np.zeros(len(arrays), "bool")
        self._left = self._max_new_tokens

    def __iter__(self) -> "TokenStream":
        return self

    def __next__(self) -> np.ndarray[Any, Any]:
        if self._left == 0 or self._stopped.all():
            raise StopIteration
        if self._state is None:
            self._state = self._decoder.start(self._memory)
            self._memory = None
        tokens, self._stopped, self._state = self._decoder.decode(
            self._state,
            self._unread,
            self._left,
            self._stopped,
            self._stop_token_ids,
        )
        self._unread = tokens[:, -1:]
        if self._left is not None:
            self._left -= tokens.shape[1]
        return tokens

    def _current_memory(self) -> Memory:
        if self._state is None:
            return self._memory or {}
        memory: Memory = self._decoder.memory_of(self._state)
        return memory


class TextStream:
    """Continues a text without end, at constant cost a token.

    It is made by `TransformerXLCausalLM.generate_stream`.

    Args:
        tokens: the stream of ids, one row.
        encode: turns a text into ids.
        text: turns ids into text as they come.
        stop_token_ids: ids that end the text and are no part of it.

    Yields:
        str: what comes next, never empty, never a part of a character.
    """

    def __init__(
        self,
        tokens: TokenStream,
        encode: Callable[[str], Any],
        text: IncrementalText,
        stop_token_ids: Sequence[int] = (),
    ) -> None:
        self._tokens = tokens
        self._encode = encode
        self._text = text
        self._stop_token_ids = {int(token) for token in stop_token_ids}
        self._flushed = ""

    @property
    def memory(self) -> Memory:
        """Memory as of now, as `TokenStream.memory`.

        `unsaid_ids` `(1, any)` are the first bytes of a character that was
        not given out yet.
        """
        held = np.array([self._text.held], "int32").reshape(1, -1)
        return {**self._tokens.memory, "unsaid_ids": held}

    def send_text(self, text: str) -> None:
        """Let more text follow, as in a dialogue; generation goes on behind.

        `max_new_tokens` counts from here, and a text that had ended goes on.

        Args:
            text: what the user says. It is not given out.
        """
        ids = np.asarray(self._encode(text), "int32")
        self._tokens.send([ids])
        self._flushed += self._text.flush()
        self._text.forget(ids.tolist())

    def __iter__(self) -> "TextStream":
        return self

    def __next__(self) -> str:
        said, self._flushed = self._flushed, ""
        while not said:
            ids = next(self._tokens)[0].tolist()
            stopped = ids[-1] in self._stop_token_ids
            said = self._text.add(ids[:-1] if stopped else ids)
            if stopped:
                said += self._text.flush()
                if not said:
                    raise StopIteration
        return said
