"""Losses of texts of different lengths, read side by side.

Each text is a row of its own from its first token to its last: read in
segments of T tokens, with a memory that nothing else has touched. A row whose
text has ended takes the next one, longest first, so that one compiled shape
serves all texts and few places in a batch stay empty.

Axes: B rows, T segment, M memory slots, L layers, D hidden width.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.models.text_encoding import encode_texts

PADDING = -1
NOTHING = -1
"""Stands for the text of a row that has none left."""


class ScoringMixin:
    """`score` for a language model with memory as a value."""

    backbone: Any
    preprocessor: Any
    initial_memory: Callable[..., Memory]
    token_losses: Callable[..., tuple[Tensor, Memory]]

    def score(
        self,
        texts: Any,
        context: Any = None,
        *,
        per_token: bool = False,
        memory_length: int | None = None,
        segment_length: int = 128,
        batch_size: int = 16,
        progress: Callable[[int, int], None] | None = None,
    ) -> np.ndarray:
        """Loss of each text in nats; lower is likelier.

        Memory starts fresh for each text, or with what `context` left, so
        the score of a text does not depend on the others. The first token of
        a text is given, not predicted, unless something comes before it: a
        `context`, or the start token of a preprocessor with
        `add_start_token`. A text without a predicted token scores 0.

        Args:
            texts: list of str, or list of 1-D arrays of int ids. Strings get
                the start and end token that the preprocessor adds.
            context: str or 1-D array of int ids that comes before each text.
                It is read once and is no part of the score.
            per_token: bool. Whether to divide by the number of predicted
                tokens (nan where there is none), so that long texts do not
                lose to short ones.
            memory_length: int. Tokens kept in memory. Defaults to
                `eval_memory_length`. A score with context is that of one
                pass over both as long as memory covers them.
            segment_length: int. Tokens of a text that one call reads.
            batch_size: int. Texts read side by side.
            progress: called as `progress(done, total)` with numbers of
                predicted tokens, after each segment.

        Returns:
            float64 array of shape `(len(texts),)`, in the given order.

        Raises:
            ValueError: if the texts are neither strings nor ids of the model,
                or if there is a context but no memory to keep it.

        Example:
        ```python
        candidates = [np.array([3, 1]), np.array([3, 2, 2])]
        nats = lm.score(candidates, context=np.array([1, 2, 1]))
        best = candidates[np.argmin(nats)]
        ```
        """
        check_integer("segment_length", segment_length, 1)
        check_integer("batch_size", batch_size, 1)
        check_optional_integer("memory_length", memory_length, 0)
        encoder = (self.preprocessor, self.backbone.vocabulary_size)
        ids = encode_texts(texts, *encoder, start=context is None)
        memory = self.initial_memory(1, memory_length)
        if context is not None:
            before = encode_texts([context], *encoder, end=False)[0]
            _check_context(before, memory)
            _, memory = self._read_texts([before], memory, 1, segment_length)
            ids = [np.concatenate([before[-1:], text]) for text in ids]
        nats, _ = self._read_texts(
            ids, memory, batch_size, segment_length, progress
        )
        if per_token:
            sizes = num_targets(ids)
            nats = np.where(sizes > 0, nats / np.maximum(sizes, 1), np.nan)
        return nats

    def _read_texts(
        self,
        ids: Sequence[np.ndarray],
        start: Memory,
        batch_size: int,
        segment_length: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[np.ndarray, Memory]:
        """Summed loss of each text, and the memory after the last segment.

        `start` is the memory of one row with which each text begins.
        """
        sizes = num_targets(ids)
        nats = np.zeros(len(ids))
        done, total = 0, int(sizes.sum())
        if not total:
            return nats, start
        batch_size = _just_enough(int((sizes > 0).sum()), batch_size)
        segment_length = _just_enough(int(sizes.max()), segment_length)
        start = {
            key: ops.repeat(value, batch_size, axis=0)
            for key, value in start.items()
        }
        memory = start
        for texts, begins in schedule(sizes, batch_size, segment_length):
            inputs, targets = cut(ids, texts, begins, segment_length)
            busy = texts != NOTHING
            memory = choose_rows(busy & (begins == 0), start, memory)
            losses, memory = self.token_losses(inputs, targets, memory)
            summed = np.sum(ops.convert_to_numpy(losses), axis=1, dtype=float)
            nats[texts[busy]] += summed[busy]  # a text is in one row only
            done += int(np.sum(inputs["document_ids"] != PADDING))
            if progress is not None:
                progress(done, total)
        return nats, memory


def num_targets(ids: Sequence[np.ndarray]) -> np.ndarray:
    """Predicted tokens of each text: all but the first."""
    return np.array([max(len(text) - 1, 0) for text in ids], "int64")


def schedule(
    sizes: np.ndarray, batch_size: int, segment_length: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What each row reads, segment by segment, longest texts first.

    Args:
        sizes: int array, predicted tokens of each text.
        batch_size: int. Rows B.
        segment_length: int. Tokens T of a segment.

    Yields:
        Two int arrays of shape `(B,)`: the text of each row (-1: none), and
        the place in it where the segment begins (0: a new text).
    """
    waiting = [text for text in np.argsort(sizes, kind="stable") if sizes[text]]
    texts = np.full(batch_size, NOTHING)
    begins = np.zeros(batch_size, "int64")
    left = np.zeros(batch_size, "int64")
    while waiting or (left > segment_length).any():
        begins += segment_length
        left -= segment_length
        for row in np.flatnonzero(left <= 0):
            texts[row] = waiting.pop() if waiting else NOTHING
            begins[row] = 0
            left[row] = sizes[texts[row]] if texts[row] != NOTHING else 0
        yield texts.copy(), begins.copy()


def cut(
    ids: Sequence[np.ndarray],
    texts: np.ndarray,
    begins: np.ndarray,
    segment_length: int,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs and targets of one segment of a `schedule`.

    Returns:
        Dict of `token_ids` and `document_ids` (0, and -1 on padding), and
        the targets; int32 arrays of shape `(B, T)`.
    """
    shape = (len(texts), segment_length)
    token_ids, targets = np.zeros(shape, "int32"), np.zeros(shape, "int32")
    document_ids = np.full(shape, PADDING, "int32")
    for row in np.flatnonzero(texts != NOTHING):
        begin = begins[row]
        piece = ids[texts[row]][begin : begin + segment_length + 1]
        token_ids[row, : len(piece) - 1] = piece[:-1]
        targets[row, : len(piece) - 1] = piece[1:]
        document_ids[row, : len(piece) - 1] = 0
    return {"token_ids": token_ids, "document_ids": document_ids}, targets


def choose_rows(chosen: np.ndarray, first: Memory, second: Memory) -> Memory:
    """A memory with the rows of `first` where `chosen (B,)`, else `second`."""
    if not chosen.any():
        return second
    return {
        key: ops.where(
            chosen.reshape(-1, *[1] * (len(second[key].shape) - 1)),
            first[key],
            second[key],
        )
        for key in second
    }


def _just_enough(size: int, limit: int) -> int:
    """The next power of two, so that few shapes are compiled, or `limit`."""
    return min(1 << (size - 1).bit_length(), limit)


def _check_context(context: np.ndarray, memory: Memory) -> None:
    if not context.size:
        raise ValueError(
            "`context` must hold at least one token. Received: an empty one. "
            "Pass context=None to score texts without context."
        )
    if not memory["states"].shape[2]:
        raise ValueError(
            "`context` needs memory to be kept in. Received: a context of "
            f"{len(context)} tokens for a memory of 0. Pass memory_length="
            f"{len(context)} or more."
        )
