"""Recordings of vectors as parallel streams, each step with the next as target.

Axis letters: B rows, T steps of a segment, C features.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_txl.data.repeated_stream import Batch
from keras_txl.data.segment_stream import SegmentStream


class FeatureStream(SegmentStream):
    """Consecutive segments of vectors, for models with `feature_dim`.

    It lays out the steps of recordings as `SegmentStream` lays out the tokens
    of documents: every vector but the first of a recording comes exactly once
    as a target, and none crosses a border. A batch is `(inputs, targets,
    sample_weight)` with inputs `features`, float32 of shape `(batch_size,
    segment_length, C)`, and `document_ids`, the number of the recording, -1
    on padding; targets are the vectors that follow, in the shape of
    `features`, zeros on padding like these.

    Args:
        recordings: sequence of float arrays of shape `(num_steps, C)`, or one
            such array.
        batch_size: number of rows B read side by side.
        segment_length: steps T of a segment.
        **options: other arguments of `SegmentStream`.

    Raises:
        ValueError: if the recordings are no vectors of one width, or none has
            two steps.

    Example:
    ```python
    wave = np.sin(np.arange(100) / 5)[:, None]
    stream = keras_txl.data.FeatureStream(wave, 2, segment_length=8)
    inputs, targets, sample_weight = stream[0]
    inputs["features"].shape  # (2, 8, 1)
    ```
    """

    def __init__(
        self,
        recordings: Any,
        batch_size: int,
        segment_length: int,
        **options: Any,
    ) -> None:
        steps = _check_recordings(recordings)
        ends = np.cumsum([len(recording) for recording in steps])
        numbers = np.split(np.arange(ends[-1]), ends[:-1])
        super().__init__(numbers, batch_size, segment_length, **options)
        self._features = np.concatenate(steps)

    def segment(self, index: int, pass_number: int = 0) -> Batch:
        """Return one segment, see `SegmentStream.segment`."""
        inputs, targets, sample_weight = super().segment(index, pass_number)
        valid = sample_weight[..., None]
        features = self._features[inputs["token_ids"]] * valid
        return (
            {"features": features, "document_ids": inputs["document_ids"]},
            self._features[targets] * valid,
            sample_weight,
        )


def _check_recordings(recordings: Any) -> Sequence[np.ndarray]:
    if isinstance(recordings, np.ndarray) and recordings.ndim == 2:
        recordings = [recordings]
    arrays = [np.asarray(recording) for recording in recordings]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) != 1 or len(*shapes) != 1:
        raise ValueError(
            "`recordings` must be arrays of shape (num_steps, feature_dim) of "
            "one width. Received: shapes="
            f"{[array.shape for array in arrays][:5]}. Give a series of single "
            "values a last axis: values[:, None]."
        )
    return [array.astype("float32", copy=False) for array in arrays]
