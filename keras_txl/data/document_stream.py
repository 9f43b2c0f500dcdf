"""Segments of documents that come one after the other, maybe without end.

Axis letters: B rows (streams), T tokens of a segment.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.data.repeated_stream import Batch
from keras_txl.data.token_documents import INT32_MAX
from keras_txl.data.token_documents import as_arrays


def stream_documents(
    documents: Iterable[Any], batch_size: int, segment_length: int
) -> Iterator[Batch]:
    """Read documents from an iterator as B streams of segments.

    Each row reads a document from its beginning to its end and then takes the
    next one, as the released code reads unordered sentences. Nothing is
    needed beyond the B documents that are being read, so the iterator may
    have no end. Where it ends, rows without a document are padding until the
    last one is done.

    Batches are those of `SegmentStream`: each document's tokens but its first
    are targets once, documents are numbered in the order in which they came,
    and segments are full as long as there are documents. The place in an
    iterator can be restored only by whoever made it; for a corpus on disk use
    `SegmentStream`, which can.

    Args:
        documents: yields 1-D arrays of integer token ids.
        batch_size: number of rows B.
        segment_length: tokens T of a segment.

    Yields:
        `(inputs, targets, sample_weight)` as `SegmentStream` does.

    Raises:
        ValueError: if a size is below 1 or a document holds no ids.

    Example:

    >>> for inputs, targets, _ in stream_documents([[1, 2, 3], [7, 8]], 1, 3):
    ...     print(inputs["token_ids"], targets, inputs["document_ids"])
    [[1 2 7]] [[2 3 8]] [[0 0 1]]
    """
    check_integer("batch_size", batch_size, 1)
    check_integer("segment_length", segment_length, 1)
    return _segments(iter(documents), batch_size, segment_length)


def _segments(
    documents: Iterator[Any], batch_size: int, segment_length: int
) -> Iterator[Batch]:
    rows = _Rows(documents, batch_size)
    shape = (batch_size, segment_length)
    while True:
        token_ids = np.zeros(shape, "int32")
        targets = np.zeros(shape, "int32")
        document_ids = np.full(shape, -1, "int32")
        for row in range(batch_size):
            filled = 0
            while filled < segment_length:
                piece, number = rows.take(row, segment_length - filled)
                if piece is None:
                    break
                stop = filled + len(piece) - 1
                token_ids[row, filled:stop] = piece[:-1]
                targets[row, filled:stop] = piece[1:]
                document_ids[row, filled:stop] = number
                filled = stop
        if (document_ids < 0).all():
            return
        inputs = {"token_ids": token_ids, "document_ids": document_ids}
        yield inputs, targets, (document_ids >= 0).astype("float32")


class _Rows:
    """The documents that rows are reading, and the next ones.

    Args:
        documents: where they come from.
        batch_size: number of rows.
    """

    def __init__(self, documents: Iterator[Any], batch_size: int) -> None:
        self._documents = documents
        self._left: list[Any] = [np.zeros(0, "int32")] * batch_size
        self._numbers = [0] * batch_size
        self._count = 0

    def take(self, row: int, limit: int) -> tuple[Any, int]:
        """Up to `limit` pairs of a row's document, and its number.

        Returns:
            The tokens of the pairs, one more than pairs; `None` at the end.
        """
        while len(self._left[row]) < 2:  # only a target is left, or nothing
            try:
                document = next(self._documents)
            except StopIteration:
                return None, 0
            (self._left[row],) = as_arrays([document])
            self._numbers[row] = self._count % INT32_MAX
            self._count += 1
        piece = self._left[row][: limit + 1]
        self._left[row] = self._left[row][limit:]
        return piece, self._numbers[row]
