"""A stream from some place on, pass after pass, without an end.

`SegmentStream` numbers its documents on when a pass begins, which it learns
from the order in which it is asked. Here every segment follows from its
number alone, so training can begin anywhere and nothing depends on what was
read ahead.
"""

from typing import Any

import keras
import numpy as np

from keras_txl.checks import check_integer


class EndlessStream(keras.utils.PyDataset):
    """The segments of a stream from step `start` on, endlessly.

    Segment i of pass p is step `p * len(stream) + i`. Documents are numbered
    on from pass to pass as `SegmentStream` does it, so a pass starts clean.
    `fit` needs `steps_per_epoch`, which may be any number: an epoch is then
    a slice of training, no pass over the text.

    Args:
        stream: a `SegmentStream`.
        start: step to begin with.

    Example:

    ```python
    lm.fit(EndlessStream(stream), steps_per_epoch=100, epochs=20)
    ```
    """

    def __init__(self, stream: Any, start: int = 0) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.stream = stream
        self.start = check_integer("start", start, 0)

    @property
    def num_batches(self) -> None:
        """`None`: there is no last batch."""
        return None

    def __getitem__(
        self, index: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        pass_number, segment = divmod(self.start + index, len(self.stream))
        return self.stream.segment(segment, pass_number)
