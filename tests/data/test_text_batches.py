"""Batches of texts of like length: each text once, in few shapes."""

import numpy as np
import pytest

from keras_txl.data import TextBatches

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

SIZES = [9, 2, 40, 3, 1, 17, 0, 8, 33, 12, 5]
TEXTS = [np.full(size, index) for index, size in enumerate(SIZES)]


def batches(**arguments):
    return TextBatches(
        TEXTS,
        np.arange(len(SIZES)),
        **{"batch_size": 2, "segment_length": 8, **arguments},
    )


@pytest.mark.parametrize("shuffle", [False, True])
def test_each_text_is_once_in_a_pass_with_its_label(shuffle):
    data = batches(shuffle=shuffle)
    orders = []
    for _ in range(2):
        seen = []
        for inputs, labels in (data[index] for index in range(len(data))):
            assert len(labels) <= 2
            for ids, mask, label in zip(
                inputs["token_ids"],
                inputs["padding_mask"],
                labels,
                strict=True,
            ):
                assert mask.sum() == SIZES[label]
                np.testing.assert_array_equal(ids[mask], TEXTS[label])
                seen.append(label)
        assert sorted(seen) == list(range(len(SIZES)))
        rows = data.in_given_order(np.array(seen))
        assert rows.tolist() == list(range(len(SIZES)))
        orders.append(seen)
        data.on_epoch_end()
    assert (orders[0] != orders[1]) == shuffle


@pytest.mark.parametrize("shuffle", [False, True])
def test_first_two_batches_are_the_narrowest_and_the_widest(shuffle):
    data = batches(shuffle=shuffle)
    widths = [
        data[index][0]["token_ids"].shape[1] for index in range(len(data))
    ]
    assert widths[0] == min(widths)
    assert widths[1] == max(widths) == 64  # 8 segments, for 5 of them
    assert set(widths) <= {1, 2, 4, 8, 16, 32, 64}
    assert batches(batch_size=99)[0][0]["token_ids"].shape == (11, 64)


def test_texts_and_labels_must_match():
    with pytest.raises(ValueError, match="`labels` must have one entry"):
        TextBatches(TEXTS, [0, 1])
    with pytest.raises(ValueError, match="`labels` must be numbers"):
        TextBatches(TEXTS, ["poem"] * len(TEXTS))
    with pytest.raises(ValueError, match="at least one text"):
        TextBatches([])
    with pytest.raises(ValueError, match="weighs labels"):
        TextBatches(TEXTS, sample_weight=np.ones(len(TEXTS)))
