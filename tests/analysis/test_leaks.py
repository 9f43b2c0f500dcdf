"""Each fault of memory turns its line of the report red, and no other."""

import numpy as np
import pytest

from keras_txl.analysis import LeakCheck
from keras_txl.analysis import LeakReport
from keras_txl.analysis import assert_no_leaks
from keras_txl.analysis import check_isolation
from keras_txl.analysis.leaks import example_documents
from keras_txl.analysis.leaks import random_documents
from keras_txl.analysis.memory_changes import halves
from keras_txl.analysis.memory_changes import number_blocks
from keras_txl.analysis.memory_changes import spread
from keras_txl.layers import attention_mask
from keras_txl.layers import segment_memory
from keras_txl.models import value_memory
from tests.oracles.leaky_model import FAULTS
from tests.oracles.leaky_model import LeakyModel

OWN_DOCUMENT = "its own document, 1 to 6 tokens back"
OWN_STATES = "a state of 2 x 3 layers and slots"
ISOLATION = {
    "another document",
    "another row",
    "a token on padding",
    "the place of padding",
    "a segment of padding",
    "another memory",
    "the text before a reset",
}
ALL = ("value", "eval", "train")
BANKS = ("eval", "train")
# A document comes back after another; padding stands in mid-document.
DOCUMENTS = [[0, 0, -1, 0, 1, 1, 0, -1], [2, -1, 2, 2, 2, 2, 2, 3]]


def lines(memories, *changes):
    return {(memory, change) for memory in memories for change in changes}


RED = {
    "another row's memory": lines(ALL, "another row"),
    "one bank": lines(BANKS, "another memory"),
    "padding is remembered": lines(
        ALL,
        "a token on padding",
        "the place of padding",
        "a segment of padding",
    ),
    "padding takes a slot": lines(
        ALL, "the place of padding", "a segment of padding"
    ),
    "a border is ignored": lines(ALL, "another document"),
    "equal ids reconnect": lines(ALL, "another document"),
    "a reset is missing": lines(BANKS, "the text before a reset"),
    "memory is ignored": lines(ALL, OWN_DOCUMENT)
    | lines(["value"], OWN_STATES),
    "the oldest slot is ignored": lines(ALL, OWN_DOCUMENT)
    | lines(["value"], OWN_STATES),
    "memory of the second layer is ignored": lines(ALL, OWN_DOCUMENT)
    | lines(["value"], OWN_STATES),
    "a gradient in memory": lines(["value"], "gradient of the states"),
    "a random loss": lines(ALL, *ISOLATION),
}


# The others move losses elsewhere, too: a row reads what it should not.
SHOWS_ALONE = set(FAULTS) - {
    "another row's memory",
    "one bank",
    "a reset is missing",
}


def test_a_model_without_a_fault_passes_every_line():
    report = check_isolation(LeakyModel(), DOCUMENTS)
    assert report.passed
    assert {(c.memory, c.change) for c in report.checks} == (
        lines(ALL, *ISOLATION, OWN_DOCUMENT)
        | lines(["value"], "gradient of the states", OWN_STATES)
    )
    assert all(c.difference == 0 for c in report.checks if not c.control)
    assert all(c.difference > 1e-9 for c in report.checks if c.control)
    assert_no_leaks(LeakyModel(), DOCUMENTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_turns_its_line_red(fault):
    report = check_isolation(LeakyModel(fault), DOCUMENTS)
    red = {(check.memory, check.change) for check in report.failures}
    assert red >= RED[fault], str(report)
    if fault in SHOWS_ALONE:
        assert red == RED[fault], str(report)


@pytest.mark.parametrize(
    "fault, place",
    [
        ("the oldest slot is ignored", "slot 3 back"),
        ("memory of the second layer is ignored", "layer 1"),
    ],
)
def test_a_control_names_the_place_that_is_not_read(fault, place):
    report = check_isolation(LeakyModel(fault), DOCUMENTS)
    (states,) = [c for c in report.failures if c.change == OWN_STATES]
    assert place in states.place


def test_a_failure_shows_the_table():
    with pytest.raises(AssertionError, match="The model leaks") as caught:
        assert_no_leaks(LeakyModel("one bank"), DOCUMENTS)
    text = str(caught.value)
    assert "another memory" in text and "LEAKS" in text and "row" in text


# === Models and arguments of all kinds ===
def test_a_model_without_banks_is_checked_by_value():
    report = check_isolation(LeakyModel(rows=None))
    assert report.passed
    assert {check.memory for check in report.checks} == {"value"}


def test_one_row_has_no_other():
    report = check_isolation(LeakyModel(rows=1))
    assert report.passed
    changes = {check.change for check in report.checks}
    assert "another row" not in changes and "another memory" in changes


def test_few_places_still_reach_both_ends():
    report = check_isolation(
        LeakyModel("memory of the second layer is ignored"),
        DOCUMENTS,
        max_places=2,
    )
    (value,) = [c for c in report.failures if c.change == OWN_STATES]
    assert value.place == "layer 1, slot 3 back"


def test_a_model_without_memory_is_refused(make_lm):
    with pytest.raises(ValueError, match="memory_length=0.*Build the model"):
        check_isolation(make_lm(memory_length=0))
    with pytest.raises(ValueError, match="attention_window=1"):
        check_isolation(make_lm(attention_window=1))


@pytest.mark.parametrize(
    "document_ids, found",
    [
        ([[0, 0], [0, 0], [0, 0]], r"shape=\(3, 2\)"),
        ([[0, 0, 0], [0, 0, 0]], r"shape=\(2, 3\)"),
        ([[0.0, 0.0], [0.0, 0.0]], "float64"),
        ([0, 0], r"shape=\(2,\)"),
    ],
)
def test_documents_that_do_not_fit_are_refused(document_ids, found):
    with pytest.raises(ValueError, match=f"a multiple of 4.*{found}.*Pad"):
        check_isolation(LeakyModel(), document_ids)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"segment_length": 0}, "`segment_length`"),
        ({"max_places": 1}, "`max_places`"),
        ({"weight_scale": 0.0}, "`weight_scale`"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_isolation(LeakyModel(), **arguments)


# === Parts ===
def test_a_border_is_where_the_last_token_was_of_another_document():
    blocks = number_blocks(np.array([[-1, 3, -1, 3, 4, -1, 3], [-1] * 7]))
    assert blocks.tolist() == [[-1, 0, -1, 0, 1, -1, 2], [-1] * 7]


@pytest.mark.parametrize("count", range(10))
def test_halves_part_every_pair_in_both_orders(count):
    masks = list(halves(count))
    for first in range(count):
        for second in set(range(count)) - {first}:
            assert any(m[first] and not m[second] for m in masks)


def test_places_are_spread_from_end_to_end():
    assert spread(3, 64).tolist() == [0, 1, 2]
    assert spread(100, 3).tolist() == [0, 50, 99]


def test_a_loss_that_is_no_number_is_no_zero():
    nan = LeakCheck("value", "another row", float("nan"))
    assert not nan.passed
    assert not LeakReport((nan,)).passed


@pytest.mark.parametrize("segment_length", [4, 64])
def test_documents_drawn_have_borders_padding_and_ids_that_recur(
    segment_length,
):
    rng = np.random.default_rng(0)
    documents = random_documents(rng, 2, segment_length, num_segments=4)
    assert documents.shape == (2, 4 * segment_length)
    assert (documents < 0).any()
    blocks = number_blocks(documents)
    assert blocks.max() >= 3  # ids run from 0 to 2: one came again
    parts = blocks.reshape(2, 4, segment_length)
    valid = np.ma.masked_less(parts, 0)
    first, last = valid.min(axis=-1), valid.max(axis=-1)  # (rows, segments)
    assert (first < last).any()  # a border in mid-segment
    assert (last[:, :-1] == first[:, 1:]).any()  # a document over segments


@pytest.mark.parametrize("segment_length", [4, 9])
def test_example_documents_have_every_kind_of_border(segment_length):
    rng = np.random.default_rng(0)
    documents = example_documents(rng, 2, segment_length)
    assert documents.shape == (2, 6 * segment_length)
    for row in documents[:, : 3 * segment_length]:
        first, second, third = row.reshape(3, segment_length)
        assert len(set(first)) == 1  # memory is full of one document
        assert second[0] != first[0]  # a border where a segment begins
        assert second[-1] == first[0]  # in mid-segment, by an id that recurs
        assert third[0] == second[-1]  # a document goes on over segments
        assert third[-1] == -1  # padding before the next border


# === A fault of the real layers ===
def document_forgotten(length, document, document_ids):
    return length


@pytest.mark.parametrize("memory_length", [2, 12])
def test_memory_kept_at_a_border_between_segments_is_seen(
    memory_length, make_lm, monkeypatch
):
    monkeypatch.setattr(segment_memory, "recall", document_forgotten)
    monkeypatch.setattr(value_memory, "recall", document_forgotten)
    lm = make_lm(memory_length=memory_length, batch_size=1)
    for seed in range(2):
        report = check_isolation(lm, max_places=2, seed=seed)
        red = {(check.memory, check.change) for check in report.failures}
        assert lines(ALL, "another document") <= red


@pytest.mark.backend("tensorflow")
def test_a_scope_of_several_replicas_is_refused(make_lm, monkeypatch):
    monkeypatch.setattr("keras_txl.analysis.leaks.num_replicas", lambda: 2)
    with pytest.raises(ValueError, match="outside of the scope"):
        check_isolation(make_lm())


def test_a_model_without_a_head_is_refused(make_lm):
    with pytest.raises(TypeError, match="must be a `TransformerXLCausalLM`"):
        check_isolation(make_lm().backbone)


def documents_ignored(document_ids):
    return document_ids * 0


def test_documents_ignored_within_a_segment_are_seen(make_lm, monkeypatch):
    monkeypatch.setattr(attention_mask, "document_blocks", documents_ignored)
    report = check_isolation(make_lm(memory_length=2), max_places=2)
    red = {(check.memory, check.change) for check in report.failures}
    assert red == lines(ALL, "another document")
