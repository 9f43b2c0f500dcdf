"""Texts of different lengths score as if each were read alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.models.text_encoding import encode_texts
from keras_txl.tokenizers import TransformerXLByteTokenizer
from tests import tolerances
from tests.oracles.value_losses import segment_losses
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

RNG = np.random.default_rng(16)
TEXTS = [RNG.integers(0, 17, size) for size in (13, 1, 21, 2, 0, 8, 5)]
CONTEXT = RNG.integers(0, 17, 11)
SIZES = np.array([12, 0, 20, 1, 0, 7, 4])
# Few shapes, so that little is compiled.
CUT = {"segment_length": 4, "batch_size": 3}
COVERING = {**CUT, "memory_length": 32}


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm()
    randomize(lm, seed=5)
    return lm


def uncut_losses(lm, texts):
    """Losses `(B, T)` of texts in one call each, from its second token on."""
    longest = max(map(len, texts))
    ids = np.zeros((len(texts), longest), "int32")
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    valid = np.arange(1, longest) < np.array([[len(text)] for text in texts])
    losses, _ = lm.token_losses(
        {"token_ids": ids[:, :-1], "padding_mask": valid},
        ids[:, 1:],
        lm.initial_memory(len(texts), memory_length=0),
    )
    return to_numpy(losses).astype("float64")


def test_with_enough_memory_a_text_scores_as_in_one_call(lm):
    expected = uncut_losses(lm, TEXTS).sum(axis=1)
    nats = lm.score(TEXTS, **COVERING)
    assert nats.dtype == "float64"
    assert_close(nats, expected, tolerances.FLOAT32, "nats")
    assert list(nats == 0) == [False, True, False, False, True, False, False]


def test_the_memory_is_that_of_the_model_and_fresh_for_each_text(lm):
    text = TEXTS[2]
    batches = [
        (text[None, begin : begin + 4], text[None, begin + 1 : begin + 5])
        for begin in range(0, 20, 4)
    ]
    expected = np.sum(segment_losses(lm, batches, memory_length=6))
    nats = lm.score([*TEXTS[:2], text, text], **CUT)
    assert_close(nats[2:], [expected, expected], tolerances.FLOAT32, "nats")
    assert abs(lm.score(TEXTS, **COVERING)[2] - expected) > 1e-3


VARIANTS = [
    {"cutoffs": [5, 11]},
    {"position": "absolute_sinusoidal"},
    {"attend_empty_memory": True},
]


@pytest.mark.parametrize("overrides", [{}, *VARIANTS], ids=str)
def test_scores_depend_neither_on_order_nor_on_company(make_lm, lm, overrides):
    if overrides:
        lm = make_lm(**overrides)
        randomize(lm, seed=5)
    together = lm.score(TEXTS, **CUT)
    backwards = lm.score(TEXTS[::-1], **CUT)[::-1]
    assert_close(backwards, together, tolerances.REORDERED, "backwards")
    for index in (0, 2):
        alone = lm.score([TEXTS[index]], **CUT)
        assert_close(
            together[[index]], alone, tolerances.REORDERED, f"text {index}"
        )


def test_candidates_with_context_score_as_what_follows_it_in_one_pass(lm):
    whole = [np.concatenate([CONTEXT, text]) for text in TEXTS]
    expected = uncut_losses(lm, whole)[:, len(CONTEXT) - 1 :].sum(axis=1)
    nats = lm.score(TEXTS, CONTEXT, **COVERING)
    assert_close(nats, expected, tolerances.FLOAT32, "nats")
    assert nats[1] > 0  # also the first token of a candidate is predicted
    assert nats[4] == 0
    assert np.abs(nats - lm.score(TEXTS, CONTEXT[-1:], **COVERING))[0] > 1e-3


def test_a_context_is_read_once(lm, monkeypatch):
    read = []

    def token_losses(inputs, targets, memory):
        read.append(int((inputs["document_ids"] >= 0).sum()))
        return original(inputs, targets, memory)

    original = lm.token_losses
    monkeypatch.setattr(lm, "token_losses", token_losses)
    lm.score(TEXTS, CONTEXT, **COVERING)
    tokens = sum(map(len, TEXTS))
    assert sum(read) == len(CONTEXT) - 1 + tokens


def test_a_context_of_one_token_stands_where_a_first_token_would(lm):
    given = [np.concatenate([[7], text]) for text in TEXTS]
    expected = lm.score(given, **COVERING)
    nats = lm.score(TEXTS, [7], **COVERING)
    assert_close(nats, expected, tolerances.EXACT, "nats")


def test_a_score_per_token_does_not_grow_with_the_text(lm):
    nats = lm.score(TEXTS, **CUT)
    per_token = lm.score(TEXTS, per_token=True, **CUT)
    some = SIZES > 0
    assert_close(per_token[some], (nats[some] / SIZES[some]), 0.0, "nats")
    assert np.isnan(per_token[~some]).all()


def test_progress_counts_predicted_tokens(lm):
    told = []
    lm.score(TEXTS, **CUT, progress=lambda *counts: told.append(counts))
    assert told[-1] == (44, 44)
    assert [total for _, total in told] == [44] * len(told)
    assert sorted(told) == told


def test_scoring_leaves_no_trace_in_the_model(lm):
    before = [np.array(to_numpy(v.value)) for v in lm.variables]
    first = lm.score(TEXTS, **CUT)
    assert_close(lm.score(TEXTS, **CUT), first, tolerances.EXACT, "nats")
    for value, variable in zip(before, lm.variables, strict=True):
        assert_close(variable.value, value, tolerances.EXACT, variable.path)


def test_no_texts_have_no_scores(lm):
    assert lm.score([]).shape == (0,)
    assert lm.score([np.array([], "int32")]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": "ab"}, r"must be a list.*Pass a list of one text: \[text\]"),
        ({"texts": ["ab"]}, "Strings need a tokenizer.*preprocessor=None"),
        ({"texts": [[0, 17]]}, r"in \[0, 17\)\. Received: ids from 0 to 17"),
        ({"texts": [[0.5]]}, "1-D array of int token ids.*float64"),
        ({"texts": [[[1]]]}, r"1-D array of int token ids.*\(1, 1\)"),
        ({"context": []}, "`context` must hold at least one token"),
        (
            {"context": [1, 2], "memory_length": 0},
            r"`context` needs memory.*memory_length=2",
        ),
        ({"segment_length": 0}, "`segment_length` must be an integer"),
        ({"batch_size": 0}, "`batch_size` must be an integer"),
        ({"memory_length": -1}, "`memory_length` must be an integer"),
    ],
    ids=str,
)
def test_what_cannot_be_scored_is_told(lm, arguments, message):
    with pytest.raises(ValueError, match=message):
        lm.score(**{"texts": [[1, 2]], **arguments})


# === Texts to ids ===
def preprocessor(add_start_token=True, add_end_token=True):
    """Letters are tokens from 3 on; 1 starts and 2 ends a text."""

    def tokenizer(texts):
        return [[ord(letter) - 94 for letter in text] for text in texts]

    tokenizer.start_token_id = 1
    tokenizer.end_token_id = 2
    return SimpleNamespace(
        tokenizer=tokenizer,
        add_start_token=add_start_token,
        add_end_token=add_end_token,
    )


@pytest.mark.parametrize(
    ("added", "wanted", "expected"),
    [
        ((True, True), {}, [[1, 3, 4, 2], [1, 2]]),
        ((True, True), {"start": False}, [[3, 4, 2], [2]]),
        ((True, True), {"end": False}, [[1, 3, 4], [1]]),
        ((False, False), {}, [[3, 4], []]),
    ],
)
def test_strings_get_the_tokens_that_the_preprocessor_adds(
    added, wanted, expected
):
    ids = encode_texts(["ab", ""], preprocessor(*added), 17, **wanted)
    assert [text.tolist() for text in ids] == expected


@pytest.mark.parametrize("name", ["start", "end"])
def test_tokens_that_the_tokenizer_has_not_cannot_be_added(name):
    wanted = {f"add_{name}_token": True}
    message = f"`{name}_token_id`.*Byte.*Pass add_{name}_token=False"
    with pytest.raises(ValueError, match=message):
        TransformerXLCausalLMPreprocessor(
            TransformerXLByteTokenizer(), **wanted
        )


def test_ids_are_taken_as_they_are():
    ids = encode_texts([[3, 4], np.array([5])], preprocessor(), 17)
    assert [text.tolist() for text in ids] == [[3, 4], [5]]


def test_strings_and_ids_do_not_mix():
    with pytest.raises(ValueError, match="all be strings or all be ids"):
        encode_texts(["ab", [3]], preprocessor(), 17)


def test_a_start_token_stands_before_the_context_and_not_the_candidates(
    lm, monkeypatch
):
    monkeypatch.setattr(lm, "preprocessor", preprocessor())
    nats = lm.score(["ab", "c"], "cab", **COVERING)
    ids = [[3, 4, 2], [5, 2]]
    expected = lm.score(ids, [1, 5, 3, 4], **COVERING)
    assert_close(nats, expected, tolerances.EXACT, "nats")
