"""Which row reads which text when, for texts of any lengths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.models.scoring import NOTHING
from keras_txl.models.scoring import cut
from keras_txl.models.scoring import schedule

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)
SMALL = st.integers(1, 9)


@given(LENGTHS, SMALL, SMALL)
def test_segments_put_together_are_the_texts(lengths, rows, segment_length):
    numbers = iter(range(1, 1000))
    ids = [np.array([next(numbers) for _ in range(n)]) for n in lengths]
    sizes = np.array(lengths) - 1
    read = {text: [] for text in range(len(ids))}
    rows_of = {}
    for texts, begins in schedule(sizes, rows, segment_length):
        inputs, targets = cut(ids, texts, begins, segment_length)
        valid = inputs["document_ids"] >= 0
        assert valid.any()
        assert not targets[~valid].any()
        assert not valid[texts == NOTHING].any()
        for row, text in enumerate(texts):
            if text == NOTHING:
                continue
            assert rows_of.setdefault(text, row) == row
            assert begins[row] == len(read[text])
            given, wanted = inputs["token_ids"][row], targets[row]
            assert (given[valid[row]] + 1 == wanted[valid[row]]).all()
            read[text].extend(wanted[valid[row]])
    for text, targets in read.items():
        assert targets == ids[text][1:].tolist()


@given(LENGTHS, SMALL, SMALL)
def test_longest_texts_begin_first_and_no_row_waits(
    lengths, rows, segment_length
):
    sizes = np.array(lengths) - 1
    begun, a_row_waited = [], False
    for texts, begins in schedule(sizes, rows, segment_length):
        new = (texts != NOTHING) & (begins == 0)
        assert not (new.any() and a_row_waited)
        begun.extend(sizes[texts[new]])
        a_row_waited = (texts == NOTHING).any()
    assert begun == sorted(sizes[sizes > 0], reverse=True)
