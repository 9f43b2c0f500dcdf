"""Losses of documents, and what may and may not change them."""

import math

import numpy as np
import pytest

from keras_txl.evaluation import StreamEvaluation
from keras_txl.evaluation import evaluate_stream
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm()
    rng = np.random.default_rng(1)
    for variable in lm.trainable_variables:
        variable.assign(rng.normal(0, 0.3, variable.shape))
    return lm


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(2)
    return [rng.integers(0, 17, size) for size in (13, 1, 21, 2, 8)]


def evaluate(lm, documents, **overrides):
    arguments = {"segment_length": 4, "batch_size": 2, "memory_length": 6}
    return evaluate_stream(lm, documents, **{**arguments, **overrides})


def differ(first, second):
    return np.abs(first.document_nats - second.document_nats).max() > 1e-3


def loss_of_whole_document(lm, document):
    memory = lm.initial_memory(1, memory_length=0)
    losses, _ = lm.token_losses(document[None, :-1], document[None, 1:], memory)
    return to_numpy(losses).sum()


def test_with_enough_memory_each_document_has_the_loss_of_one_segment(
    lm, documents
):
    # One stream: no document is cut.
    result = evaluate(lm, documents, batch_size=1, memory_length=32)
    expected = [
        loss_of_whole_document(lm, d) if len(d) > 1 else 0.0 for d in documents
    ]
    assert_close(result.document_nats, np.array(expected), FLOAT32, "nats")
    assert list(result.document_targets) == [12, 0, 20, 1, 7]


def test_the_averages_follow_from_the_sums(lm, documents):
    result = evaluate(lm, documents)
    assert result.num_targets == 40
    assert result.nats == pytest.approx(result.document_nats.sum())
    assert result.nats_per_token == pytest.approx(result.nats / 40)
    assert result.bits_per_byte == pytest.approx(result.nats / 40 / math.log(2))
    assert result.bits_per_token == result.bits_per_byte
    assert result.perplexity == pytest.approx(math.exp(result.nats / 40))
    assert result.tokens_per_second > 0


def test_bits_per_byte_count_the_bytes_that_tokens_stand_for(lm, documents):
    plain = evaluate(lm, documents)
    sizes = [2 * (len(document) - 1) for document in documents]
    result = evaluate(lm, documents, document_bytes=sizes)
    assert result.bits_per_byte == pytest.approx(plain.bits_per_byte / 2)
    assert result.bits_per_token == pytest.approx(plain.bits_per_token)


def test_memory_of_more_tokens_changes_the_loss(lm, documents):
    without = evaluate(lm, documents, memory_length=0)
    with_memory = evaluate(lm, documents, memory_length=6)
    assert differ(without, with_memory)


def test_zeroed_memory_is_neither_memory_nor_its_absence(lm, documents):
    zeroed = evaluate(lm, documents, zero_memory=True)
    assert differ(zeroed, evaluate(lm, documents))
    assert differ(zeroed, evaluate(lm, documents, memory_length=0))


def test_an_evaluation_leaves_no_trace_in_the_model(lm, documents):
    before = [np.array(to_numpy(v.value)) for v in lm.variables]
    first = evaluate(lm, documents)
    second = evaluate(lm, documents)
    np.testing.assert_array_equal(first.document_nats, second.document_nats)
    for value, variable in zip(before, lm.variables, strict=True):
        assert_close(variable.value, value, 0.0, variable.path)


def test_the_default_memory_is_that_of_the_model(lm, documents):
    result = evaluate(lm, documents, memory_length=None)
    expected = evaluate(lm, documents, memory_length=6)
    assert_close(result.document_nats, expected.document_nats, FLOAT32, "nats")


def test_progress_is_told_after_each_segment(lm, documents):
    told = []
    evaluate(lm, documents, progress=lambda *counts: told.append(counts))
    assert told == [(n, 5) for n in range(1, 6)]


def test_one_array_is_one_document(lm, documents):
    result = evaluate(lm, documents[0])
    assert list(result.document_targets) == [12]


@pytest.mark.parametrize(
    "arguments", [{"segment_length": 0}, {"batch_size": 0}]
)
def test_sizes_below_one_are_refused(lm, documents, arguments):
    name = next(iter(arguments))
    with pytest.raises(ValueError, match=f"`{name}` must be an integer of"):
        evaluate(lm, documents, **arguments)


def test_a_negative_memory_is_refused(lm, documents):
    with pytest.raises(ValueError, match="`memory_length` must be"):
        evaluate(lm, documents, memory_length=-1)


def test_bytes_of_too_few_documents_are_refused(lm, documents):
    with pytest.raises(ValueError, match="3 entries for 5 documents"):
        evaluate(lm, documents, document_bytes=[1, 2, 3])


def test_one_segment_alone_has_no_speed():
    result = StreamEvaluation(np.ones(1), np.ones(1), np.ones(1), 0.0, 0)
    assert result.tokens_per_second == 0.0
