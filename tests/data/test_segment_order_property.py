"""Random lengths and starts: nothing lost, nothing doubled, all repeatable."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.data import SegmentStream
from keras_txl.data.segment_order import draw_segment_lengths
from keras_txl.data.segment_stream import row_borders
from tests.data.test_segment_stream_property import CORPORA
from tests.data.test_segment_stream_property import SIZES
from tests.data.test_segment_stream_property import expected_pairs
from tests.data.test_segment_stream_property import read_rows

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

KINDS = st.fixed_dictionaries(
    {
        "random_lengths": st.booleans(),
        "random_starts": st.booleans(),
        "seed": st.integers(0, 5),
    }
)
PASSES = st.integers(0, 4)


def read_pass(stream, number):
    return [stream.segment(index, number) for index in range(len(stream))]


def true_rows(stream, number):
    """For each row the cells (token, target, document) that count."""
    rows = read_rows(read_pass(stream, number), stream.batch_size)
    return [[cell[:3] for cell in row if cell[3]] for row in rows]


def arrays_of(batches):
    return [
        array.tolist()
        for inputs, targets, weights in batches
        for array in (*inputs.values(), targets, weights)
    ]


@given(CORPORA, SIZES, SIZES, KINDS, PASSES)
def test_each_row_is_its_text_turned_by_some_offset(
    corpus, batch_size, length, kind, number
):
    stream = SegmentStream(corpus, batch_size, length, **kind)
    pairs = expected_pairs(corpus)
    borders = row_borders(len(pairs), batch_size).tolist()
    for (first, last), row in zip(
        pairwise(borders), true_rows(stream, number), strict=True
    ):
        expected = pairs[first:last]
        found = [(t, y, d % len(corpus)) for t, y, d in row]
        offsets = range(len(expected)) if kind["random_starts"] else (0,)
        turns = [expected[k:] + expected[:k] for k in offsets]
        assert found in (turns or [[]])


@given(CORPORA, SIZES, SIZES, KINDS, PASSES)
def test_text_that_does_not_follow_has_another_document(
    corpus, batch_size, length, kind, number
):
    """In a row, over the borders of segments, rows' ends and passes."""
    pairs = expected_pairs(corpus)
    line = [(p, d) for p, (_, _, d) in enumerate(pairs)]
    # Which pair of the line a cell is, told by unique tokens.
    unique, count = [], 0
    for document in corpus:
        unique.append(np.arange(count, count + len(document)))
        count += len(document)
    place = {token: p for p, (token, _, _) in enumerate(expected_pairs(unique))}
    stream = SegmentStream(unique, batch_size, length, **kind)
    for row, later in zip(
        true_rows(stream, number), true_rows(stream, number + 1), strict=True
    ):
        inside = len(row) - 1
        cells = row + later
        for index, (one, two) in enumerate(pairwise(cells)):
            p, q = place[one[0]], place[two[0]]
            follows = q == p + 1 and line[p][1] == line[q][1]
            if index == inside:
                assert one[2] != two[2]  # a new pass starts clean
            else:
                assert (one[2] == two[2]) == follows


@given(CORPORA, SIZES, SIZES, KINDS, PASSES)
def test_padding_is_the_tail_of_each_segment(
    corpus, batch_size, length, kind, number
):
    batches = read_pass(
        SegmentStream(corpus, batch_size, length, **kind), number
    )
    for inputs, targets, weights in batches:
        assert weights.shape == (batch_size, length)
        assert weights.any()
        assert (np.diff(weights, axis=1) <= 0).all()
        assert ((inputs["document_ids"] >= 0) == (weights == 1)).all()
        assert not inputs["token_ids"][weights == 0].any()
        assert not targets[weights == 0].any()
        # Rows advance together.
        assert np.ptp(weights.sum(axis=1)) <= 1


@given(CORPORA, SIZES, SIZES, KINDS, st.integers(0, 20))
def test_a_pass_can_be_entered_anywhere(
    corpus, batch_size, length, kind, start
):
    """As a run that is resumed does, with a stream made anew."""
    stream = SegmentStream(corpus, batch_size, length, **kind)
    whole = [stream.repeat()[index] for index in range(start + 4)]
    again = SegmentStream(corpus, batch_size, length, **kind).repeat(start)
    assert arrays_of(again[i] for i in range(4)) == arrays_of(whole[start:])


def test_passes_differ_in_borders_and_starts():
    def orders(**kind):
        stream = SegmentStream(np.arange(801), 2, 16, **kind)
        passes = [read_pass(stream, number) for number in range(6)]
        borders = {
            tuple(int(w[0].sum()) for _, _, w in batches) for batches in passes
        }
        starts = {
            batches[0][0]["token_ids"][:, 0].tobytes() for batches in passes
        }
        return len(borders), len(starts)

    assert orders() == (1, 1)
    assert orders(random_lengths=True) == (6, 1)
    assert orders(random_starts=True) == (1, 6)
    assert orders(random_lengths=True, random_starts=True) == (6, 6)


def test_seeds_differ():
    def tokens(seed):
        stream = SegmentStream(
            np.arange(801), 2, 16, random_lengths=True, seed=seed
        )
        return arrays_of(read_pass(stream, 0))

    assert tokens(0) == tokens(0) != tokens(1)


def test_each_row_starts_at_its_own_offset():
    stream = SegmentStream(np.arange(801), 4, 16, random_starts=True)
    first = stream.segment(0)[0]["token_ids"][:, 0]
    assert len(set((first % 200).tolist())) == 4


@pytest.mark.parametrize("longest", [40, 64, 165])
def test_lengths_are_drawn_as_the_released_code_draws_them(longest):
    """`bptt` if random() < 0.95 else bptt / 2, a normal deviation of 5, at
    least 5 and at most `bptt + 15`, which is our longest."""
    rng = np.random.default_rng(7)
    lengths = draw_segment_lengths(200_000, longest, rng)
    assert lengths.sum() == 200_000
    bptt = longest - 15
    simulated = []
    for _ in range(20_000):
        center = bptt if rng.random() < 0.95 else bptt / 2
        simulated.append(min(bptt + 15, max(5, int(rng.normal(center, 5)))))
    lengths = lengths[:-1]
    for share in (0.01, 0.04, 0.2, 0.5, 0.8, 0.99):
        found, wanted = (
            np.quantile(lengths, share),
            np.quantile(simulated, share),
        )
        # Between the two humps of the density a quantile is uncertain.
        assert abs(found - wanted) <= (2 if share != 0.04 else 6)
    assert lengths.min() >= 5
    assert lengths.max() <= longest


@pytest.mark.parametrize("longest", range(1, 12))
def test_short_segments_have_lengths_too(longest):
    lengths = draw_segment_lengths(500, longest, np.random.default_rng(0))
    assert lengths.sum() == 500
    assert 1 <= lengths.min() and lengths.max() <= longest
    assert longest < 3 or len(set(lengths.tolist())) > 1


def test_a_stream_tells_how_it_is_random():
    stream = SegmentStream(np.arange(9), 1, 2, random_starts=True, seed=3)
    assert (stream.random_lengths, stream.random_starts) == (False, True)
    assert stream.seed == 3
    with pytest.raises(ValueError, match="`seed` must be an integer"):
        SegmentStream(np.arange(9), 1, 2, seed=-1)
