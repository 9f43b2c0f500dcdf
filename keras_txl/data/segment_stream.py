"""A corpus as B parallel streams of consecutive segments (paper 3.2).

A document of n tokens gives n - 1 pairs (input, target). The pairs of all
documents are laid end to end, that long line is cut into B contiguous rows of
equal length, and segment i holds pairs i * T to (i + 1) * T of every row. So
memory left by one segment is what the next segment of the same row continues.
Where segments and rows begin, and in which order the documents are laid, may
also be drawn anew for each pass (`segment_order.py`).

Axis letters: B rows (streams), T tokens of a segment.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.data.document_layout import DocumentLayout
from keras_txl.data.ordered_dataset import OrderedDataset
from keras_txl.data.ordered_dataset import OwnLock
from keras_txl.data.repeated_stream import Batch
from keras_txl.data.repeated_stream import RepeatedStream
from keras_txl.data.repeated_stream import StreamPass
from keras_txl.data.segment_order import document_order
from keras_txl.data.segment_order import draw_segment_lengths
from keras_txl.data.segment_order import row_starts
from keras_txl.data.segment_order import segment_borders
from keras_txl.data.token_documents import INT32_MAX
from keras_txl.data.token_documents import as_token_source


def row_borders(num_targets: int, batch_size: int) -> np.ndarray:
    """Cut a line of pairs into rows whose lengths differ by at most one.

    Args:
        num_targets: length of the line, in pairs.
        batch_size: number of rows B.

    Returns:
        int64 array of shape `(B + 1,)`: row r holds the pairs from entry r
        up to entry r + 1.
    """
    rows = np.arange(batch_size + 1, dtype=np.int64)
    return rows * num_targets // batch_size


class SegmentStream(OrderedDataset):
    """Consecutive segments of a corpus, for models with memory.

    Each batch is `(inputs, targets, sample_weight)` with inputs
    `{"token_ids": ..., "document_ids": ...}`, all of shape
    `(batch_size, segment_length)`: int32, weights float32. Every target of the
    corpus comes exactly once in a pass and no target crosses a document
    border. What is left of a row behind its last pair is padding: token 0,
    target 0, document -1, weight 0.

    With a fixed order a model meets each word at the same place of a segment,
    behind the same memory, in every pass. `random_lengths` draws the lengths
    of segments as the released code does with `--varlen`: around a little
    below `segment_length`, one in twenty around half of that; a shorter
    segment ends in padding, so shapes stay. `random_starts` begins each row
    at another place in each pass and goes on at its front, as a new document,
    where it ends. `shuffle_documents` lays the documents in another order in
    each pass. A pass depends on its number and the seed alone, and all passes
    have as many segments.

    A pass numbers the documents on (pass p adds `p * num_documents`), so that
    its first tokens never continue the documents that ended the last one;
    with random starts twice as many, as a document may come in two parts.
    Iterating and `to_tf_dataset()` begin a pass each time they start. Reading
    by index, as `fit` does, begins one when index 0 is asked for after the
    last index was delivered. Give a stream to one reader at a time;
    `segment()`, `repeat()` and `one_pass()` depend on nothing but their
    arguments.

    Pass `shuffle=False` to `fit` of a plain Keras model.

    Args:
        documents: a `TokenFile`, which stays on disk; or one document, or a
            sequence of documents. A document is a 1-D array of integer token
            ids; one alone is not copied. A document of less than two tokens
            has no target, but keeps its number.
        batch_size: number of rows B read side by side, by all processes
            together.
        segment_length: tokens T of a segment; of the longest one, if lengths
            are random.
        random_lengths: bool. Whether segments differ in length.
        random_starts: bool. Whether rows begin elsewhere in each pass.
        shuffle_documents: bool. Whether each pass lays the documents in
            another order.
        seed: int. Seed of the lengths, starts and orders.
        shard: `(index, count)`: which of `count` equal shares of the rows
            this process reads. All shares have as many segments.

    Attributes:
        num_rows: rows of a batch: those of the shard.
        num_tokens: tokens of all documents.
        num_targets: pairs (input, target) of one pass.
        num_documents: number of documents.

    Raises:
        ValueError: if no document has two tokens, or an id is negative or
            beyond int32, or an array is not 1-D, or a size is below 1, or the
            rows cannot be shared.
        TypeError: if the documents are text or hold no integers.

    Example:

    >>> stream = SegmentStream(np.arange(6), batch_size=1, segment_length=3)
    >>> for inputs, targets, sample_weight in stream:
    ...     print(inputs["token_ids"], targets, sample_weight)
    [[0 1 2]] [[1 2 3]] [[1. 1. 1.]]
    [[3 4 0]] [[4 5 0]] [[1. 1. 0.]]
    """

    def __init__(
        self,
        documents: Any,
        batch_size: int,
        segment_length: int,
        *,
        random_lengths: bool = False,
        random_starts: bool = False,
        shuffle_documents: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__()
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.segment_length = check_integer("segment_length", segment_length, 1)
        self.random_lengths = bool(random_lengths)
        self.random_starts = bool(random_starts)
        self.shuffle_documents = bool(shuffle_documents)
        self.seed = check_integer("seed", seed, 0)
        self.shard = _check_shard(shard, self.batch_size)
        self._source = as_token_source(documents)
        lengths = self._source.lengths
        self.num_documents = len(lengths)
        self.num_tokens = int(lengths.sum())
        # Only documents with a target are laid out.
        self._numbers = np.flatnonzero(lengths >= 2)
        if not len(self._numbers):
            raise ValueError(
                "`documents` must hold at least one document of two tokens, "
                "an input and a target. Received: "
                f"num_documents={self.num_documents}, "
                f"num_tokens={self.num_tokens}. Pass a longer text."
            )
        self._lengths = lengths[self._numbers]
        self._starts = (np.cumsum(lengths) - lengths)[self._numbers]
        self.num_targets = int(self._lengths.sum() - len(self._numbers))
        borders = row_borders(self.num_targets, self.batch_size)
        self._row_lengths = np.diff(borders)
        self.num_rows = self.batch_size // self.shard[1]
        first_row = self.shard[0] * self.num_rows
        self._own = slice(first_row, first_row + self.num_rows)
        self._own_rows = borders[:-1][self._own]
        self._own_lengths = self._row_lengths[self._own]
        self._segment_lengths = self._draw_lengths()
        self._last_order: tuple[int, np.ndarray, np.ndarray, Any] | None = None
        self._lock = OwnLock()
        self._next_pass = 0  # first pass number nobody has used
        self._index_pass: int | None = None  # pass of reading by index
        self._furthest = -1  # highest index delivered in that pass
        self._in_epoch = False

    @property
    def settings(self) -> dict[str, Any]:
        """What decides about its segments, beside the ids themselves."""
        return {
            "num_tokens": self.num_tokens,
            "num_targets": self.num_targets,
            "num_documents": self.num_documents,
            "batch_size": self.batch_size,
            "segment_length": self.segment_length,
            "random_lengths": self.random_lengths,
            "random_starts": self.random_starts,
            "shuffle_documents": self.shuffle_documents,
            "seed": self.seed,
            "shard": list(self.shard),
        }

    @property
    def pass_number(self) -> int:
        """Pass that reading by index has come to; 0 before it begins."""
        return self._index_pass or 0

    @cached_property
    def largest_id(self) -> int:
        """Largest token id, or what none exceeds; a vocabulary is larger."""
        return int(self._source.largest_id)

    def __len__(self) -> int:
        return len(self._segment_lengths)

    def segment(self, index: int, pass_number: int = 0) -> Batch:
        """Return one segment; depends on the arguments alone.

        Args:
            index: position in the pass, `0 <= index < len(stream)`.
            pass_number: which pass; sets the numbers of the documents and
                what is random.

        Returns:
            `(inputs, targets, sample_weight)` as the class describes.

        Raises:
            IndexError: if the index lies outside the pass.
        """
        if not 0 <= index < len(self):
            raise IndexError(
                f"`index` must lie in [0, {len(self)}). Received: "
                f"index={index}. Use `repeat()` to read on over passes."
            )
        borders, starts, layout = self._order(pass_number)
        lengths = self._own_lengths
        first = starts + np.minimum(borders[index], lengths)  # (B,)
        last = starts + np.minimum(borders[index + 1], lengths)
        # Behind its end a row goes on at its front: two ranges a row.
        begins = np.stack(
            [np.minimum(first, lengths), np.maximum(first - lengths, 0)], axis=1
        )  # (B, 2)
        ends = np.stack(
            [np.minimum(last, lengths), np.maximum(last - lengths, 0)], axis=1
        )
        rows = self._own_rows[:, None]
        tokens, sizes, number, owner = layout.find(
            (rows + begins).ravel(), (rows + ends).ravel()
        )
        parts = 2 if self.random_starts else 1
        # Numbers wrap around inside int32; neighbours in time still differ.
        passes = max(1, INT32_MAX // (parts * self.num_documents))
        part = pass_number % passes * parts + owner % 2
        number = number + part * self.num_documents
        valid = np.arange(self.segment_length) < (last - first)[:, None]
        ids, targets = self._source.read(tokens, sizes)
        inputs = {
            "token_ids": _spread(ids, valid, 0),
            "document_ids": _spread(np.repeat(number, sizes), valid, -1),
        }
        return inputs, _spread(targets, valid, 0), valid.astype("float32")

    def __getitem__(self, index: int) -> Batch:
        return self.segment(index, self._pass_for(index))

    def __iter__(self) -> Iterator[Batch]:
        with self._lock:
            pass_number = self._begin_pass()
        for index in range(len(self)):
            yield self.segment(index, pass_number)

    def repeat(self, start: int = 0) -> "RepeatedStream":
        """Return the segments of pass after pass, without an end.

        For `fit` with any `steps_per_epoch`, and to go on at the step where
        an earlier run stopped.

        Args:
            start: segments to leave out at the beginning, counted over all
                passes.

        Returns:
            A `keras.utils.PyDataset` without a length.
        """
        return RepeatedStream(self, start)

    def one_pass(self, number: int = 0) -> "StreamPass":
        """Return one pass for readers of their own order, such as PyTorch.

        A `torch.utils.data.DataLoader(stream.one_pass(0), batch_size=None)`
        with any number of workers, or a Grain data source, gives the segments
        of the pass in order.

        Args:
            number: which pass.

        Returns:
            A sequence of batches.
        """
        return StreamPass(self, number)

    def to_tf_dataset(self) -> Any:
        """Return one pass as a `tf.data.Dataset` with static shapes.

        Each iteration of the dataset is a new pass, also under `.repeat()`.
        """
        import tensorflow as tf

        dataset = tf.data.Dataset.from_generator(
            self.__iter__,
            output_signature=tf.nest.map_structure(
                lambda array: tf.TensorSpec(array.shape, array.dtype),
                self.segment(0),
            ),
        )
        # Without its length Keras warns at the end of the first epoch.
        dataset = dataset.apply(
            tf.data.experimental.assert_cardinality(len(self))
        )
        return dataset.prefetch(tf.data.AUTOTUNE)

    def on_epoch_begin(self) -> None:
        self._in_epoch = True

    def on_epoch_end(self) -> None:
        self._in_epoch = False

    def _draw_lengths(self) -> np.ndarray:
        longest = int(self._row_lengths.max())
        if self.random_lengths:
            rng = np.random.default_rng((self.seed, 0))
            return draw_segment_lengths(longest, self.segment_length, rng)
        num_segments = -(-longest // self.segment_length)
        return np.full(num_segments, self.segment_length, dtype=np.int64)

    def _order(self, pass_number: int) -> tuple[np.ndarray, np.ndarray, Any]:
        """Borders of segments, starts of rows and layout of a pass."""
        last = self._last_order
        if last is None or last[0] != pass_number:
            borders = segment_borders(
                self._segment_lengths, self.seed, pass_number
            )
            starts = np.zeros(self.num_rows, dtype=np.int64)
            if self.random_starts:
                every = row_starts(self._row_lengths, self.seed, pass_number)
                starts = every[self._own]
            layout = None if self.shuffle_documents or not last else last[3]
            if layout is None:
                layout = self._lay_out(pass_number)
            last = self._last_order = (pass_number, borders, starts, layout)
        return last[1:]

    def _lay_out(self, pass_number: int) -> DocumentLayout:
        order: Any = slice(None)
        if self.shuffle_documents:
            order = document_order(len(self._numbers), self.seed, pass_number)
        return DocumentLayout(
            self._starts[order], self._lengths[order], self._numbers[order]
        )

    def _pass_for(self, index: int) -> int:
        # Keras opens iterators that it drops after a few segments (to learn
        # shapes, or prefetching), maybe in threads. All of them count up from
        # 0, so a pass is over only when its last segment was delivered.
        last = len(self) - 1
        with self._lock:
            finished = index == 0 and self._furthest == last
            if self._index_pass is None or finished:
                self._index_pass = self._begin_pass()
                self._furthest = -1
            if self._in_epoch and index > self._furthest + 1:
                raise ValueError(
                    "Segments must be read in order while a model trains or "
                    f"evaluates. Received: index={index} after "
                    f"index={self._furthest}. Pass `shuffle=False` to `fit`; "
                    "use `segment(index)` to look at a single one."
                )
            self._furthest = max(self._furthest, index)
            return self._index_pass

    def _begin_pass(self) -> int:
        self._next_pass += 1
        return self._next_pass - 1


def _check_shard(shard: Any, batch_size: int) -> tuple[int, int]:
    try:
        index, count = shard
        index = check_integer("shard index", index, 0)
        count = check_integer("shard count", count, 1)
        fits = index < count and batch_size % count == 0
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            "`shard` must be (index, count) with index < count, and "
            f"`batch_size` divisible by count. Received: shard={shard!r}, "
            f"batch_size={batch_size}."
        )
    return index, count


def _spread(values: np.ndarray, valid: np.ndarray, fill: int) -> np.ndarray:
    """Values in the valid places of a batch, row by row, as int32."""
    if values.size == valid.size:
        return values.astype("int32").reshape(valid.shape)
    spread = np.full(valid.shape, fill, dtype="int32")
    spread[valid] = values
    return spread
