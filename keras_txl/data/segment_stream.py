"""A corpus as B parallel streams of consecutive segments (paper 3.2).

A document of n tokens gives n - 1 pairs (input, target). The pairs of all
documents are laid end to end, that long line is cut into B contiguous rows of
equal length, and segment i holds pairs i * T to (i + 1) * T of every row. So
memory left by one segment is what the next segment of the same row continues.
Where segments and rows begin may also be drawn anew for each pass
(`segment_order.py`).

Axis letters: B rows (streams), T tokens of a segment.
"""

from collections.abc import Iterator
from functools import cached_property
from threading import Lock
from typing import Any

import keras
import numpy as np

from keras_txl.checks import check_integer
from keras_txl.data.segment_order import draw_segment_lengths
from keras_txl.data.segment_order import row_starts
from keras_txl.data.segment_order import segment_borders
from keras_txl.data.token_documents import INT32_MAX
from keras_txl.data.token_documents import as_arrays
from keras_txl.data.token_documents import join_arrays

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]
"""`(inputs, targets, sample_weight)`, every array of shape (B, T)."""


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


class OrderedDataset(keras.utils.PyDataset):
    """A `PyDataset` that no setting can read out of order.

    With several workers Keras loses or moves the first batch on some
    backends, and memory would silently meet the wrong text.
    """

    @property
    def workers(self) -> int:
        return 1

    @workers.setter
    def workers(self, value: int) -> None:
        if value > 1:
            raise ValueError(
                "`workers` must be at most 1, since more would deliver "
                f"segments out of order. Received: workers={value}. Use "
                "`to_tf_dataset()` to prepare batches in the background."
            )

    @property
    def use_multiprocessing(self) -> bool:
        return False

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        if value:
            raise ValueError(
                "`use_multiprocessing` must be False, since processes would "
                "deliver segments out of order. Received: "
                f"use_multiprocessing={value}. Use `to_tf_dataset()` to "
                "prepare batches in the background."
            )


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
    where it ends. A pass depends on its number and the seed alone, and all
    passes have as many segments.

    A pass numbers the documents on (pass p adds `p * num_documents`), so that
    its first tokens never continue the documents that ended the last one;
    with random starts twice as many, as a document may come in two parts.
    Iterating and `to_tf_dataset()` begin a pass each time they start. Reading
    by index, as `fit` does, begins one when index 0 is asked for after the
    last index was delivered. Give a stream to one reader at a time;
    `segment()` and `repeat()` depend on nothing but their arguments.

    Pass `shuffle=False` to `fit` of a plain Keras model.

    Args:
        documents: one document, or a sequence of documents. A document is a
            1-D array of integer token ids; it is not copied. A document of
            less than two tokens has no target, but keeps its number.
        batch_size: number of rows B read side by side.
        segment_length: tokens T of a segment; of the longest one, if lengths
            are random.
        random_lengths: bool. Whether segments differ in length.
        random_starts: bool. Whether rows begin elsewhere in each pass.
        seed: int. Seed of the lengths and starts.

    Attributes:
        num_tokens: tokens of all documents.
        num_targets: pairs (input, target) of one pass.
        num_documents: number of documents.

    Raises:
        ValueError: if no document has two tokens, or an id is negative or
            beyond int32, or an array is not 1-D, or a size is below 1.
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
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.segment_length = check_integer("segment_length", segment_length, 1)
        self.random_lengths = bool(random_lengths)
        self.random_starts = bool(random_starts)
        self.seed = check_integer("seed", seed, 0)
        arrays = as_arrays(documents)
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        self.num_documents = len(arrays)
        self.num_tokens = int(lengths.sum())
        # Only documents with a target are kept; pair p of kept document k
        # starts at token p + k, because each earlier one has a spare token.
        self._numbers = np.flatnonzero(lengths >= 2)
        if not len(self._numbers):
            raise ValueError(
                "`documents` must hold at least one document of two tokens, "
                "an input and a target. Received: "
                f"num_documents={self.num_documents}, num_tokens="
                f"{self.num_tokens}. "
                "Pass a longer text."
            )
        self._ids = join_arrays([arrays[number] for number in self._numbers])
        self._pair_ends = np.cumsum(lengths[self._numbers] - 1)
        self.num_targets = int(self._pair_ends[-1])
        self._rows = row_borders(self.num_targets, self.batch_size)
        self._row_lengths = np.diff(self._rows)
        self._segment_lengths = self._draw_lengths()
        self._last_order: tuple[int, np.ndarray, np.ndarray] | None = None
        self._lock = Lock()
        self._next_pass = 0  # first pass number nobody has used
        self._index_pass: int | None = None  # pass of reading by index
        self._furthest = -1  # highest index delivered in that pass
        self._in_epoch = False

    @property
    def pass_number(self) -> int:
        """Pass that reading by index has come to; 0 before it begins."""
        return self._index_pass or 0

    @cached_property
    def largest_id(self) -> int:
        """Largest token id; a vocabulary must be larger."""
        return int(self._ids.max())

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
        borders, starts = self._order(pass_number)
        place = borders[index] + np.arange(self.segment_length)  # (T,)
        lengths = self._row_lengths[:, None]  # (B, 1)
        valid = (place < borders[index + 1]) & (place < lengths)  # (B, T)
        place = starts[:, None] + place  # (B, T)
        turned = place >= lengths  # behind the end: at the front of the row
        pair = self._rows[:-1, None] + place - turned * lengths
        pair = np.where(valid, pair, 0)
        kept = np.searchsorted(self._pair_ends, pair, side="right")  # (B, T)
        token = pair + kept
        parts = 2 if self.random_starts else 1
        # Numbers wrap around inside int32; neighbours in time still differ.
        passes = max(1, INT32_MAX // (parts * self.num_documents))
        part = pass_number % passes * parts + turned
        number = self._numbers[kept] + part * self.num_documents
        document = np.where(valid, number, -1)
        inputs = {
            "token_ids": np.where(valid, self._ids[token], 0).astype("int32"),
            "document_ids": document.astype("int32"),
        }
        targets = np.where(valid, self._ids[token + 1], 0).astype("int32")
        return inputs, targets, valid.astype("float32")

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

    def to_tf_dataset(self) -> Any:
        """Return one pass as a `tf.data.Dataset` with static shapes.

        Each iteration of the dataset is a new pass, also under `.repeat()`.
        """
        import tensorflow as tf

        shape = (self.batch_size, self.segment_length)
        ids = tf.TensorSpec(shape, tf.int32)
        dataset = tf.data.Dataset.from_generator(
            self.__iter__,
            output_signature=(
                {"token_ids": ids, "document_ids": ids},
                ids,
                tf.TensorSpec(shape, tf.float32),
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

    def _order(self, pass_number: int) -> tuple[np.ndarray, np.ndarray]:
        """Borders of segments and starts of rows of a pass."""
        last = self._last_order
        if last is None or last[0] != pass_number:
            borders = segment_borders(
                self._segment_lengths, self.seed, pass_number
            )
            starts = np.zeros(self.batch_size, dtype=np.int64)
            if self.random_starts:
                starts = row_starts(self._row_lengths, self.seed, pass_number)
            last = self._last_order = (pass_number, borders, starts)
        return last[1], last[2]

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


class RepeatedStream(OrderedDataset):
    """Segments of a stream over endless passes; see `SegmentStream.repeat`.

    Batch i is segment `(start + i) % n` of pass `(start + i) // n`, where n is
    the length of the stream.

    Args:
        stream: the segments to repeat.
        start: segments to leave out at the beginning.
    """

    def __init__(self, stream: SegmentStream, start: int = 0) -> None:
        super().__init__()
        self.stream = stream
        self.start = check_integer("start", start, 0)

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> Batch:
        if index < 0:
            raise IndexError(
                "`index` must be at least 0, since the stream has no end. "
                f"Received: index={index}."
            )
        pass_number, index = divmod(self.start + index, len(self.stream))
        return self.stream.segment(index, pass_number)
