"""SegmentStream: layout, passes, order and messages on small texts."""

import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.data.segment_stream import INT32_MAX
from keras_txl.data.segment_stream import row_borders


def documents_of(batches):
    return [batch[0]["document_ids"].tolist() for batch in batches]


def test_flat_text_gives_one_target_less_than_tokens():
    stream = SegmentStream(np.arange(10), batch_size=1, segment_length=4)
    assert (stream.num_tokens, stream.num_targets) == (10, 9)
    assert stream.num_documents == 1
    assert len(stream) == 3
    inputs, targets, weights = zip(*stream, strict=True)
    tokens = [x["token_ids"].tolist() for x in inputs]
    assert tokens == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 0, 0, 0]]]
    assert targets[2].tolist() == [[9, 0, 0, 0]]
    assert weights[2].tolist() == [[1, 0, 0, 0]]
    assert inputs[2]["document_ids"].tolist() == [[0, -1, -1, -1]]


def test_rows_are_contiguous_from_segment_to_segment():
    stream = SegmentStream(np.arange(13), batch_size=2, segment_length=3)
    tokens = np.concatenate([x["token_ids"] for x, _, _ in stream], axis=1)
    assert tokens.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


def test_rows_differ_by_at_most_one_pair():
    assert row_borders(10, 4).tolist() == [0, 2, 5, 7, 10]
    assert row_borders(2, 4).tolist() == [0, 0, 1, 1, 2]


def test_no_target_crosses_a_document_border():
    stream = SegmentStream([[1, 2, 3], [7, 8]], 1, 4)
    ((inputs, targets, weights),) = stream
    assert inputs["token_ids"].tolist() == [[1, 2, 7, 0]]
    assert targets.tolist() == [[2, 3, 8, 0]]
    assert inputs["document_ids"].tolist() == [[0, 0, 1, -1]]
    assert weights.tolist() == [[1, 1, 1, 0]]


def test_documents_without_a_target_keep_their_number():
    stream = SegmentStream([[1], [2, 3], [], [4, 5]], 1, 2)
    assert documents_of(stream) == [[[1, 3]]]
    assert stream.num_documents == 4
    assert stream.num_tokens == 5


def test_arrays_have_the_promised_types_and_shapes():
    stream = SegmentStream(np.arange(7, dtype="uint8"), 2, 2)
    for index in range(len(stream)):
        inputs, targets, weights = stream.segment(index)
        assert inputs["token_ids"].dtype == np.int32
        assert inputs["document_ids"].dtype == np.int32
        assert targets.dtype == np.int32
        assert weights.dtype == np.float32
        for array in (*inputs.values(), targets, weights):
            assert array.shape == (2, 2)


def test_more_rows_than_targets_leaves_rows_of_padding():
    ((inputs, _, weights),) = SegmentStream([5, 6], 3, 2)
    assert weights.sum() == 1
    assert (inputs["document_ids"] >= 0).sum() == 1


def test_a_single_document_is_not_copied():
    ids = np.zeros(1000, "uint8")
    assert SegmentStream(ids, 2, 4)._source.ids is ids


def test_several_documents_are_joined_in_their_own_type():
    parts = [np.ones(9, "uint8"), np.ones(9, "uint8")]
    assert SegmentStream(parts, 2, 4)._source.ids.dtype == np.uint8
    parts = [np.ones(9, "uint64"), np.ones(9, "int64")]
    assert SegmentStream(parts, 2, 4)._source.ids.dtype == np.int32


def test_each_iteration_numbers_documents_on():
    stream = SegmentStream([[1, 2], [3, 4]], 1, 2)
    assert documents_of(stream) == [[[0, 1]]]
    assert documents_of(stream) == [[[2, 3]]]
    assert documents_of([stream[0]]) == [[[4, 5]]]
    assert documents_of(stream) == [[[6, 7]]]


def test_reading_by_index_begins_a_pass_after_the_last_segment():
    stream = SegmentStream(np.arange(7), 1, 2)  # 3 segments
    first = documents_of(stream[i] for i in (0, 0, 1, 0, 1, 2))
    assert {x for batch in first for row in batch for x in row} == {0}
    second = documents_of(stream[i] for i in (0, 1, 0, 1, 2))
    assert {x for batch in second for row in batch for x in row} == {1}


def test_document_numbers_wrap_inside_int32():
    stream = SegmentStream([[1, 2], [3, 4], [5, 6]], 1, 3)
    seen = set()
    for number in range(INT32_MAX // 3 - 2, INT32_MAX // 3 + 2):
        inputs, _, _ = stream.segment(0, number)
        documents = inputs["document_ids"][0].astype(int)
        assert documents.min() >= 0
        assert np.diff(documents).tolist() == [1, 1]
        seen.add(int(documents[0]))
    assert len(seen) == 4  # neighbours in time never look alike


def test_repeat_goes_on_over_passes_from_any_segment():
    stream = SegmentStream(np.arange(7), 1, 2)
    repeated = stream.repeat(start=2)
    assert repeated.num_batches is None
    tokens = [repeated[i][0]["token_ids"][0, 0] for i in range(5)]
    assert tokens == [4, 0, 2, 4, 0]
    assert documents_of(repeated[i] for i in (0, 1, 4)) == [
        [[0, 0]],
        [[1, 1]],
        [[2, 2]],
    ]
    for batch, _ in zip(repeated, range(4), strict=False):
        assert batch[1].shape == (1, 2)


def test_repeat_leaves_the_passes_of_its_stream_alone():
    stream = SegmentStream(np.arange(5), 1, 4)
    stream.repeat()[7]
    assert documents_of(stream) == [[[0, 0, 0, 0]]]


def test_reading_out_of_order_in_an_epoch_names_shuffle():
    stream = SegmentStream(np.arange(20), 1, 2)
    stream.on_epoch_begin()
    for index in (0, 1, 0, 1, 2):  # one reader looks ahead and starts anew
        stream[index]
    with pytest.raises(ValueError, match="shuffle=False"):
        stream[4]
    stream.on_epoch_end()
    stream[4]  # looking at a segment is fine


def test_out_of_range_index_names_repeat():
    stream = SegmentStream(np.arange(20), 1, 2)
    for index in (-1, len(stream)):
        with pytest.raises(IndexError, match=r"Use `repeat\(\)`"):
            stream[index]
    with pytest.raises(IndexError, match="at least 0"):
        stream.repeat()[-1]


@pytest.mark.parametrize("repeated", [False, True])
def test_workers_that_would_reorder_are_refused(repeated):
    stream = SegmentStream(np.arange(20), 1, 2)
    stream = stream.repeat() if repeated else stream
    stream.workers = 1
    stream.use_multiprocessing = False
    with pytest.raises(ValueError, match=r"to_tf_dataset\(\)"):
        stream.workers = 2
    with pytest.raises(ValueError, match=r"to_tf_dataset\(\)"):
        stream.use_multiprocessing = True
    assert stream.workers == 1
    assert not stream.use_multiprocessing


@pytest.mark.parametrize("name", ["batch_size", "segment_length"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, None])
def test_sizes_must_be_positive_integers(name, value):
    sizes = {"batch_size": 1, "segment_length": 2, name: value}
    with pytest.raises(ValueError, match=f"`{name}` must be an integer"):
        SegmentStream(np.arange(9), **sizes)


@pytest.mark.parametrize("documents", [[], [1], [[]], [[1], [2]], ()])
def test_text_without_a_target_is_refused(documents):
    with pytest.raises(ValueError, match="at least one document of two"):
        SegmentStream(documents, 1, 2)


def test_tf_dataset_has_static_shapes_and_a_length():
    stream = SegmentStream(np.arange(9), 2, 3)
    dataset = stream.to_tf_dataset()
    shapes = [spec.shape for spec in dataset.element_spec[0].values()]
    shapes += [spec.shape for spec in dataset.element_spec[1:]]
    assert all(shape == (2, 3) for shape in shapes)
    assert int(dataset.cardinality()) == len(stream) == 2


def test_tf_dataset_numbers_documents_on_under_repeat():
    stream = SegmentStream([[1, 2], [3, 4]], 1, 1)
    documents = [
        int(inputs["document_ids"][0, 0])
        for inputs, _, _ in stream.to_tf_dataset().repeat(3)
    ]
    assert documents == [0, 1, 2, 3, 4, 5]
