"""A checkpoint tells streams apart that would read on at another place."""

import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.training.stream_description import describe_stream


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 2},
        {"segment_length": 5},
        {"random_lengths": True},
        {"random_starts": True},
        {"seed": 1},
    ],
)
def test_what_moves_the_text_is_described(change):
    plain = {"batch_size": 1, "segment_length": 4}
    ids = np.arange(41)
    one = describe_stream(SegmentStream(ids, **plain))
    other = describe_stream(SegmentStream(ids, **{**plain, **change}))
    assert one != other
    assert one == describe_stream(SegmentStream(ids, **plain))
