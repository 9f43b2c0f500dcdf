"""Padding may hold any number, also one that is no token."""

import numpy as np
from keras import ops

IDS = np.array([[3, 999, 5, -7, 8, -100]])
DOCUMENTS = np.array([[0, -1, 0, -1, 0, -1]])


def test_numbers_on_padding_are_never_looked_up(make_lm):
    lm = make_lm(batch_size=1)
    clean = np.where(DOCUMENTS < 0, 0, IDS)
    found, expected = (
        ops.convert_to_numpy(
            lm.token_losses(
                {"token_ids": ids, "document_ids": DOCUMENTS},
                ids,
                lm.initial_memory(1),
            )[0]
        )
        for ids in (IDS, clean)
    )
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found, expected)


def test_padding_mask_hides_numbers_that_are_no_tokens(make_lm):
    lm = make_lm(batch_size=1)
    inputs = {"token_ids": IDS, "padding_mask": DOCUMENTS >= 0}
    outputs = ops.convert_to_numpy(lm(inputs))
    assert np.all(np.isfinite(outputs))
    assert np.all(outputs[DOCUMENTS < 0] == 0)
