"""Segments of a stream over one pass or endless passes, and a place in them."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.data.ordered_dataset import OrderedDataset

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]
"""`(inputs, targets, sample_weight)`, every array of shape (B, T)."""


class RepeatedStream(OrderedDataset):
    """Segments of a stream over endless passes; see `SegmentStream.repeat`.

    Batch i is segment `(start + i) % n` of pass `(start + i) // n`, where n is
    the length of the stream.

    Args:
        stream: the segments to repeat.
        start: segments to leave out at the beginning.
    """

    def __init__(self, stream: Any, start: int = 0) -> None:
        super().__init__()
        self.stream = stream
        self.start = check_integer("start", start, 0)

    def __iter__(self) -> "SegmentIterator":
        return SegmentIterator(self)

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


class SegmentIterator:
    """Iterates over endless passes, and tells and takes its place.

    It is made by `iter(stream.repeat())`.

    Example:
    ```python
    segments = iter(stream.repeat())
    first = next(segments)
    state = segments.get_state()  # a small dict, also for JSON
    second = next(segments)
    segments.set_state(state)  # `next` gives the second again
    ```
    """

    def __init__(self, repeated: RepeatedStream) -> None:
        self._repeated = repeated
        self._next = 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self._repeated[self._next]
        self._next += 1
        return batch

    def get_state(self) -> dict[str, Any]:
        """The place, and what the stream must be for it to mean the same."""
        place = self._repeated.start + self._next
        return {"segments": place, "stream": self._repeated.stream.settings}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to the place of a state.

        Raises:
            ValueError: if it is of a stream of other text or settings.
        """
        settings = self._repeated.stream.settings
        if state["stream"] != settings:
            raise ValueError(
                "The state must be of a stream of the same text and settings. "
                f"Received: a state of {state['stream']} for a stream of "
                f"{settings}. Make the stream as it was."
            )
        self._next = state["segments"] - self._repeated.start


class StreamPass:
    """One pass as a sequence of batches; see `SegmentStream.one_pass`.

    Args:
        stream: a `SegmentStream`.
        number: which pass.
    """

    def __init__(self, stream: Any, number: int = 0) -> None:
        self.stream = stream
        self.number = check_integer("number", number, 0)

    def __len__(self) -> int:
        return len(self.stream)

    def __getitem__(self, index: int) -> Batch:
        batch: Batch = self.stream.segment(int(index), self.number)
        return batch
