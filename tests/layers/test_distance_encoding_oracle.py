"""Sinusoids of distances against one sine and cosine at a time."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles import attention_oracle
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


@pytest.mark.parametrize("clamp_length", [None, 1, 3, 50])
@pytest.mark.parametrize("key_length, hidden_dim", [(1, 2), (7, 6), (9, 16)])
def test_rows_count_down_to_distance_zero(key_length, hidden_dim, clamp_length):
    from keras_txl.layers import SinusoidalDistanceEncoding

    layer = SinusoidalDistanceEncoding(hidden_dim, clamp_length)
    rows = layer(np.zeros((2, key_length, hidden_dim), "float32"))
    distances = [
        distance if clamp_length is None else min(distance, clamp_length)
        for distance in range(key_length - 1, -1, -1)
    ]
    expected = attention_oracle.distance_encoding(distances, hidden_dim)
    assert_close(rows, expected, tolerances.FLOAT32, "encoding")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "mixed_bfloat16"])
def test_long_distances_stay_apart_in_low_precision(dtype):
    from keras import ops

    from keras_txl.layers import SinusoidalDistanceEncoding

    layer = SinusoidalDistanceEncoding(8, dtype=dtype)
    rows = ops.cast(layer(np.zeros((1, 3928, 8), "float32")), "float32")
    expected = attention_oracle.distance_encoding(range(3927, -1, -1), 8)
    # Only the result is rounded: 2**-8 is half a step of bfloat16 at 1.
    assert np.abs(to_numpy(rows) - expected).max() <= 2**-8


def test_training_may_clamp_at_another_distance():
    from keras_txl.layers import SinusoidalDistanceEncoding

    layer = SinusoidalDistanceEncoding(4, 2, eval_clamp_length=None)
    context = np.zeros((1, 6, 4), "float32")
    for training, largest in ((True, 2), (False, 5)):
        distances = [min(d, largest) for d in range(5, -1, -1)]
        assert_close(
            layer(context, training=training),
            attention_oracle.distance_encoding(distances, 4),
            tolerances.FLOAT32,
            f"training={training}",
        )
