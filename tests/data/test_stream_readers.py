"""Streams as other readers want them: endless, sharded, by PyTorch."""

import itertools
import pickle

import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.data import encode_corpus
from keras_txl.data import stream_documents


def test_iterator_without_end_is_read_as_it_is_needed():
    taken = []

    def documents():
        for number in itertools.count():
            taken.append(number)
            yield np.full(5, number % 17, "uint16")

    segments = stream_documents(documents(), batch_size=2, segment_length=4)
    for index in range(50):
        inputs, targets, weights = next(segments)
        assert weights.all()
        assert (
            inputs["document_ids"][:, 0] == [2 * index, 2 * index + 1]
        ).all()
    assert len(taken) == 100


def test_fit_takes_an_endless_iterator(make_lm):
    lm = make_lm()
    documents = itertools.cycle([np.arange(9), np.arange(17)])
    segments = stream_documents(documents, batch_size=2, segment_length=4)
    lm.fit(segments, steps_per_epoch=3, epochs=2, verbose=0)
    assert np.isfinite(lm.history.history["loss"]).all()


def test_documents_are_checked_as_they_come():
    segments = stream_documents([[1, 2], ["a", "b"]], 2, 2)
    with pytest.raises(TypeError, match="must hold integer token ids"):
        next(segments)
    with pytest.raises(ValueError, match="`batch_size`"):
        stream_documents([], 0, 2)


def test_streams_go_to_other_processes(tmp_path):
    tokens = encode_corpus(
        ["some text", "and more"],
        tmp_path,
        make_encoder=lambda: lambda data: np.frombuffer(data, "uint8"),
        vocabulary_size=256,
    )
    for documents in (np.arange(40) % 7, tokens):
        stream = SegmentStream(documents, 2, 4)
        copied = pickle.loads(pickle.dumps(stream.one_pass(1)))
        for index in range(len(stream)):
            expected = stream.segment(index, 1)[1]
            np.testing.assert_array_equal(copied[index][1], expected)
        assert len(list(copied.stream)) == len(stream)


def test_one_pass_is_a_sequence_that_forgets_nothing():
    stream = SegmentStream(np.arange(40) % 7, 2, 4, shuffle_documents=True)
    source = stream.one_pass(3)
    assert len(source) == len(stream)
    for index in (4, 0, 2, 2):
        expected = stream.segment(index, 3)
        np.testing.assert_array_equal(source[index][1], expected[1])
    with pytest.raises(IndexError):
        source[len(source)]


@pytest.mark.backend("torch")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_data_loader_delivers_the_pass_in_order(num_workers):
    from torch.utils.data import DataLoader

    stream = SegmentStream(np.arange(90) % 7, 2, 4)
    loader = DataLoader(
        stream.one_pass(1),
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context="spawn" if num_workers else None,
    )
    found = [targets.numpy() for _, targets, _ in loader]
    expected = [stream.segment(i, 1)[1] for i in range(len(stream))]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shard", [(2, 2), (0, 3), (-1, 2), (0, 0), 3])
def test_shard_that_cannot_be_is_told(shard):
    with pytest.raises(ValueError, match="`shard` must be"):
        SegmentStream(np.arange(40), 4, 4, shard=shard)


def test_state_of_another_stream_is_refused():
    first = iter(SegmentStream(np.arange(40), 4, 4).repeat())
    second = iter(SegmentStream(np.arange(41), 4, 4).repeat())
    with pytest.raises(ValueError, match="same text and settings"):
        second.set_state(first.get_state())
