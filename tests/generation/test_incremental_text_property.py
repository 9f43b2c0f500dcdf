"""Text that comes token by token is the whole text, uncut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.generation import IncrementalText
from keras_txl.tokenizers import TransformerXLByteTokenizer

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
detokenize = TransformerXLByteTokenizer().detokenize


def told(ids, sizes, context=()):
    """What each call gives out, and the rest."""
    text, parts, begin = IncrementalText(detokenize, context), [], 0
    for size in sizes:
        parts.append(text.add(ids[begin : begin + size]))
        begin += size
    parts.append(text.add(ids[begin:]))
    return parts, text.flush()


sizes = st.lists(st.integers(0, 4), max_size=30)


@given(st.text(max_size=12), st.text(max_size=3), sizes)
def test_text_arrives_whole_and_no_character_is_cut(said, before, sizes):
    ids = list(said.encode())
    parts, rest = told(ids, sizes, list(before.encode()))
    assert "".join(parts) + rest == said
    for part in parts:
        # A surrogate would be one half of a character; U+FFFD a part of one.
        assert part.count(UNKNOWN) <= said.count(UNKNOWN)
    if not said.endswith(UNKNOWN):
        assert rest == ""


noise = st.lists(
    st.sampled_from([0x41, 0x80, 0xBF, 0xC3, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 255])
    | st.integers(0, 255),
    max_size=24,
)


@given(noise, sizes)
def test_bytes_that_are_no_text_are_told_as_they_are_at_the_end(ids, sizes):
    parts, rest = told(ids, sizes)
    whole = bytes(ids).decode(errors="replace")
    assert "".join(parts) + rest == whole
    # What waits is at most one character that has begun.
    assert len(rest) <= 3


@given(noise)
def test_a_byte_is_told_as_wrong_only_when_none_can_make_it_right(ids):
    text, said = IncrementalText(detokenize), ""
    for count, byte in enumerate(ids, 1):
        said += text.add([byte])
        for more in ([], [0x80], [0xAC], [0x9F, 0x98, 0x80]):
            assert detokenize(ids[:count] + more).startswith(said)


def test_spaces_between_pieces_are_kept():
    """Tokenizers that join words look at the piece before."""
    words = ["a", "b", "c"]
    text = IncrementalText(lambda ids: " ".join(words[i] for i in ids), [0])
    assert [text.add([1]), text.add([2, 0])] == [" b", " c a"]
