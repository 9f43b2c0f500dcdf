"""Shuffled orders, shards and places: nothing lost, nothing moved."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.data import SegmentStream
from keras_txl.data import stream_documents
from tests.data.test_segment_stream_property import CORPORA
from tests.data.test_segment_stream_property import SIZES
from tests.data.test_segment_stream_property import expected_pairs
from tests.data.test_segment_stream_property import read_rows

# The same on every backend.
pytestmark = pytest.mark.backend("tensorflow")

PASSES = st.integers(0, 5)


def cells_of(stream, pass_number):
    batches = [stream.segment(i, pass_number) for i in range(len(stream))]
    return read_rows(batches, stream.num_rows)


@given(CORPORA, SIZES, SIZES, PASSES, st.booleans(), st.booleans())
def test_shuffled_documents_come_whole_and_once(
    corpus, batch_size, length, pass_number, lengths, starts
):
    stream = SegmentStream(
        corpus,
        batch_size,
        length,
        shuffle_documents=True,
        random_lengths=lengths,
        random_starts=starts,
    )
    found = [
        (token, target, number % len(corpus))
        for row in cells_of(stream, pass_number)
        for token, target, number, weight in row
        if weight
    ]
    assert sorted(found) == sorted(expected_pairs(corpus))
    if not starts:  # one document after the other, each in its order
        runs = [number for _, _, number in found]
        order = list(dict.fromkeys(runs))
        expected = [
            pair
            for document in order
            for pair in expected_pairs(corpus)
            if pair[2] == document
        ]
        assert found == expected


def test_each_pass_has_its_own_order_and_a_seed_decides():
    corpus = [[n, n, n] for n in range(20)]

    def order(seed, pass_number):
        stream = SegmentStream(corpus, 1, 40, shuffle_documents=True, seed=seed)
        ids = stream.segment(0, pass_number)[0]["token_ids"]
        return ids[0, ::2].tolist()

    assert sorted(order(0, 0)) == list(range(20))
    orders = [order(0, 0), order(0, 1), order(1, 0), list(range(20))]
    assert len({tuple(o) for o in orders}) == 4
    assert order(0, 1) == orders[1]


@given(CORPORA, st.integers(1, 3), st.integers(1, 2), SIZES, PASSES)
def test_shards_side_by_side_are_the_stream(
    corpus, count, rows, length, pass_number
):
    options = {"random_starts": True, "shuffle_documents": True, "seed": 3}
    whole = SegmentStream(corpus, rows * count, length, **options)
    shards = [
        SegmentStream(
            corpus, rows * count, length, shard=(index, count), **options
        )
        for index in range(count)
    ]
    assert {len(shard) for shard in shards} == {len(whole)}
    for index in range(len(whole)):
        expected = whole.segment(index, pass_number)
        parts = [shard.segment(index, pass_number) for shard in shards]
        for key in expected[0]:
            joined = np.concatenate([part[0][key] for part in parts])
            np.testing.assert_array_equal(joined, expected[0][key])
        for place in (1, 2):
            joined = np.concatenate([part[place] for part in parts])
            np.testing.assert_array_equal(joined, expected[place])


@given(CORPORA, SIZES, SIZES, st.integers(0, 30))
def test_a_place_is_small_and_exact(corpus, batch_size, length, steps):
    def segments():
        stream = SegmentStream(
            corpus, batch_size, length, shuffle_documents=True
        )
        return iter(stream.repeat())

    first = segments()
    for _ in range(steps):
        next(first)
    state = json.loads(json.dumps(first.get_state()))
    assert len(json.dumps(state)) < 400
    second = segments()
    second.set_state(state)
    for _ in range(3):
        one, other = next(first), next(second)
        np.testing.assert_array_equal(one[1], other[1])
        for key in one[0]:
            np.testing.assert_array_equal(one[0][key], other[0][key])


@given(CORPORA, SIZES, SIZES)
def test_iterated_documents_are_read_once_and_in_order(
    corpus, batch_size, length
):
    batches = list(stream_documents(iter(corpus), batch_size, length))
    rows = read_rows(batches, batch_size)
    kept = [[cell for cell in row if cell[3]] for row in rows]
    found = [cell[:3] for row in kept for cell in row]
    assert sorted(found) == sorted(expected_pairs(corpus))
    for row in kept:  # a document stays in its row and comes in its order
        numbers = [cell[2] for cell in row]
        assert numbers == sorted(numbers)
        for number in set(numbers):
            pairs = [cell[:3] for cell in row if cell[2] == number]
            whole = [p for p in expected_pairs(corpus) if p[2] == number]
            assert pairs == whole
    for row in rows:  # padding is what comes behind the last document
        weights = [cell[3] for cell in row]
        assert weights == sorted(weights, reverse=True)
