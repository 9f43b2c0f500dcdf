"""Over random corpora: the segments, end to end, are the corpus."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.data import SegmentStream

CORPORA = st.lists(
    st.lists(st.integers(0, 300), max_size=12), min_size=1, max_size=8
).filter(lambda corpus: any(len(document) >= 2 for document in corpus))
SIZES = st.integers(1, 5)


def expected_pairs(corpus):
    """(token, target, document) of every pair, by a loop."""
    pairs = []
    for number, document in enumerate(corpus):
        for token, target in zip(document, document[1:], strict=False):
            pairs.append((token, target, number))
    return pairs


def read_rows(batches, batch_size):
    """For each row the cells (token, target, document, weight) in order."""
    rows = [[] for _ in range(batch_size)]
    for inputs, targets, weights in batches:
        for row in range(batch_size):
            rows[row] += zip(
                inputs["token_ids"][row].tolist(),
                targets[row].tolist(),
                inputs["document_ids"][row].tolist(),
                weights[row].tolist(),
                strict=True,
            )
    return rows


@given(CORPORA, SIZES, SIZES)
def test_segments_end_to_end_are_the_corpus(corpus, batch_size, length):
    stream = SegmentStream(corpus, batch_size, length)
    rows = read_rows(stream, batch_size)
    pairs = [cell[:3] for row in rows for cell in row if cell[3]]
    assert pairs == expected_pairs(corpus)
    assert stream.num_targets == len(pairs)


@given(CORPORA, SIZES, SIZES)
def test_padding_is_only_the_tail_of_a_row(corpus, batch_size, length):
    rows = read_rows(SegmentStream(corpus, batch_size, length), batch_size)
    counts = []
    for row in rows:
        weights = [cell[3] for cell in row]
        assert weights == sorted(weights, reverse=True)
        assert set(weights) <= {0.0, 1.0}
        for cell in row:
            assert (cell[2] == -1) == (cell[3] == 0)
            if cell[3] == 0:
                assert cell[:3] == (0, 0, -1)
        counts.append(int(sum(weights)))
    assert max(counts) - min(counts) <= 1
    assert len(rows[0]) - max(counts) < length  # no segment of padding alone


@given(CORPORA, SIZES, SIZES, st.integers(1, 4))
def test_passes_differ_only_in_document_numbers(
    corpus, batch_size, length, pass_number
):
    stream = SegmentStream(corpus, batch_size, length)
    for index in range(len(stream)):
        first, later = stream.segment(index), stream.segment(index, pass_number)
        before = first[0]["document_ids"]
        after = later[0]["document_ids"]
        shift = np.where(before < 0, 0, pass_number * len(corpus))
        assert (after == before + shift).all()
        assert (first[0]["token_ids"] == later[0]["token_ids"]).all()
        assert (first[1] == later[1]).all()
        assert (first[2] == later[2]).all()


@given(CORPORA, SIZES, SIZES, st.lists(st.integers(0, 9), max_size=4))
def test_readers_that_stop_early_never_change_a_pass_in_mid_stream(
    corpus, batch_size, length, peeks
):
    """Keras opens iterators to learn shapes and drops them."""
    stream = SegmentStream(corpus, batch_size, length)
    seen = set()
    for peek in peeks:
        for index in range(min(peek, len(stream))):
            stream[index]
        batches = [stream[index] for index in range(len(stream))]
        shifts = set()
        for index, batch in enumerate(batches):
            plain = stream.segment(index)[0]["document_ids"]
            valid = plain >= 0
            shifts |= set((batch[0]["document_ids"] - plain)[valid].tolist())
        assert len(shifts) == 1
        assert not shifts & seen
        seen |= shifts


@given(CORPORA, SIZES, SIZES)
def test_index_iteration_and_tf_dataset_deliver_the_same(
    corpus, batch_size, length
):
    def read(batches):
        return read_rows(batches, batch_size)

    new = SegmentStream(corpus, batch_size, length)
    by_index = read(new[index] for index in range(len(new)))
    assert read(SegmentStream(corpus, batch_size, length)) == by_index
    dataset = SegmentStream(corpus, batch_size, length).to_tf_dataset()
    assert read(dataset.as_numpy_iterator()) == by_index
