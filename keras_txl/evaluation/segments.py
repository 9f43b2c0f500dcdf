"""Which tokens are read together, and which of them count.

All places are pairs (input, target) in the line in which the documents lie end
to end (`document_line.py`).

Axes: C calls, B rows, T segment.
"""

from dataclasses import dataclass

import numpy as np

from keras_txl.data.segment_stream import row_borders
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.protocol import EvaluationProtocol


@dataclass(frozen=True)
class SegmentPlan:
    """What each row reads in each call.

    Args:
        begins: int64 array of shape `(calls, batch)`, first place read.
        counted_from: int64 array of that shape, first place that counts.
        ends: int64 array of that shape, place behind the last one.
    """

    begins: np.ndarray
    counted_from: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.begins)

    def read(
        self, line: DocumentLine, call: int, segment_length: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, targets, what counts, and places; all `(B, T)`."""
        begins, ends = self.begins[call], self.ends[call]
        place = begins[:, None] + np.arange(segment_length)  # (B, T)
        valid = place < ends[:, None]
        ids = np.zeros(place.shape, "int32")
        targets = np.zeros(place.shape, "int32")
        document_ids = np.full(place.shape, -1, "int32")
        ids[valid], targets[valid], document_ids[valid] = line.read(
            begins, ends
        )
        inputs = {"token_ids": ids, "document_ids": document_ids}
        counted = valid & (place >= self.counted_from[call][:, None])
        return inputs, targets, counted, place


def plan_segments(
    line: DocumentLine, protocol: EvaluationProtocol
) -> SegmentPlan:
    """The calls of an evaluation; every target counts exactly once.

    Args:
        line: the documents.
        protocol: how they are read.

    Returns:
        A `SegmentPlan`.
    """
    make = _streams if protocol.stride is None else _windows
    return make(line, protocol)


def _streams(line: DocumentLine, protocol: EvaluationProtocol) -> SegmentPlan:
    borders = row_borders(line.num_targets, protocol.batch_size)  # (B + 1,)
    firsts = borders[:-1]
    # Before its document there is nothing that could be remembered.
    document = np.searchsorted(line.pair_ends, firsts, side="right")
    starts = np.concatenate([[0], line.pair_ends])[document]
    begins = np.maximum(firsts - protocol.warmup_tokens, starts)
    length = protocol.segment_length
    calls = -(-int((borders[1:] - begins).max()) // length)
    begins = begins + length * np.arange(calls)[:, None]  # (C, B)
    return SegmentPlan(
        begins,
        np.broadcast_to(firsts, begins.shape),
        np.minimum(begins + length, borders[1:]),
    )


def _windows(line: DocumentLine, protocol: EvaluationProtocol) -> SegmentPlan:
    length, stride = protocol.segment_length, protocol.stride or 1
    ends = line.pair_ends
    starts = np.concatenate([[0], ends[:-1]])
    counts = 1 + -(-np.maximum(ends - starts - length, 0) // stride)
    owner = np.repeat(np.arange(len(ends)), counts)  # (windows,)
    number = np.arange(len(owner)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    begins = starts[owner] + stride * number
    counted = np.where(number > 0, begins + length - stride, begins)
    ends = np.minimum(begins + length, ends[owner])
    return SegmentPlan(
        *(_rows(v, protocol.batch_size) for v in (begins, counted, ends))
    )


def _rows(values: np.ndarray, batch_size: int) -> np.ndarray:
    """Windows `batch_size` at a time; what is missing of the last is empty."""
    missing = -len(values) % batch_size
    return np.pad(values, (0, missing)).reshape(-1, batch_size)
