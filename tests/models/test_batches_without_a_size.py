"""Batches whose rows are known only when they are read."""

import numpy as np
import pytest

from keras_txl.data import SegmentStream

ROWS = 5  # the memory of `make_lm` holds two streams
IDS = np.arange(3 * ROWS * 4).reshape(3 * ROWS, 4) % 17
TARGETS = (IDS + 1) % 17


def batches():
    for start in range(0, len(IDS), ROWS):
        yield IDS[start : start + ROWS], TARGETS[start : start + ROWS]


def dataset():
    import tensorflow as tf

    ids = tf.TensorSpec((None, 4), tf.int32)
    return tf.data.Dataset.from_generator(batches, output_signature=(ids, ids))


@pytest.mark.parametrize("data", [batches, dataset])
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_evaluate_takes_any_batch_of_a_generator(make_lm, data):
    lm = make_lm()
    expected = lm.evaluate(IDS, TARGETS, batch_size=ROWS, verbose=0)
    found = lm.evaluate(data(), verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_fit_refuses_larger_batches_of_a_generator(make_lm):
    with pytest.raises(ValueError, match="batches of 5 rows"):
        make_lm().fit(batches(), verbose=0)


def test_validation_arrays_are_cut_as_evaluate_cuts_them(make_lm):
    lm = make_lm()
    stream = SegmentStream(IDS.ravel(), batch_size=2, segment_length=6)
    history = lm.fit(
        stream, validation_data=(IDS[:14], TARGETS[:14]), verbose=0
    ).history
    loss, perplexity = lm.evaluate(IDS[:14], TARGETS[:14], verbose=0)
    np.testing.assert_allclose(history["val_loss"], [loss], rtol=1e-5)
    np.testing.assert_allclose(
        history["val_perplexity"], [perplexity], rtol=1e-5
    )


def test_reset_takes_indices_not_a_mask(make_lm):
    with pytest.raises(ValueError, match="numpy.flatnonzero"):
        make_lm().reset_memory(rows=[True, False])
