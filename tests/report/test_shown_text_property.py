"""Pieces of text are the text, and their losses those of the tokens."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.report.shown_text import shown_pieces

pytestmark = pytest.mark.backend("tensorflow")  # no tensors


def decode(ids):
    return bytes(ids).decode("utf-8", "replace")


texts = st.lists(
    st.text(st.sampled_from("ab\n\u00e9\u20ac\U0001f600"), min_size=2),
    min_size=1,
    max_size=3,
)


@given(texts, st.integers(0, 2**32 - 1))
def test_pieces_are_the_text_and_all_of_its_loss(texts, seed):
    rng = np.random.default_rng(seed)
    documents = [np.frombuffer(t.encode(), "uint8") for t in texts]
    warm, cold = (
        [rng.random(len(ids) - 1) for ids in documents] for _ in range(2)
    )
    pieces = shown_pieces(decode, documents, warm, cold, 10**6)
    assert "".join(piece.text for piece in pieces) == "".join(texts)
    first = [piece for piece in pieces if piece.with_memory is None]
    assert len(first) == len(texts)
    # A first character of several bytes is told as given, with all of them.
    skipped = [len(text[0].encode()) - 1 for text in texts]
    for name, losses in (("with_memory", warm), ("without_memory", cold)):
        told = sum(getattr(piece, name) or 0.0 for piece in pieces)
        expected = sum(
            nats[skip:].sum()
            for nats, skip in zip(losses, skipped, strict=True)
        )
        assert told == pytest.approx(expected / math.log(2))


@pytest.mark.parametrize(("shown", "text"), [(3, "abc"), (5, "abcde")])
def test_so_many_tokens_are_shown(shown, text):
    documents = [np.frombuffer(t, "uint8") for t in (b"abcd", b"efg")]
    losses = [np.ones(3), np.ones(2)]
    pieces = shown_pieces(decode, documents, losses, losses, shown)
    assert "".join(piece.text for piece in pieces) == text


def test_bytes_that_are_no_text_are_shown_as_such():
    pieces = shown_pieces(
        decode,
        [np.array([97, 0xFF, 0xE2, 0x82], "uint8")],
        [np.array([1.0, 2.0, 4.0]) * math.log(2)],
        [np.zeros(3)],
        10,
    )
    assert pieces[0].text == "a"
    assert "".join(p.text for p in pieces[1:]).strip("\ufffd") == ""
    assert sum(p.with_memory for p in pieces[1:]) == pytest.approx(7.0)
