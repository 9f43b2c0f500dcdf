"""Round trips over Unicode, and one set of ids by every path."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_txl.tokenizers import TransformerXLByteTokenizer
from keras_txl.tokenizers import TransformerXLCharacterTokenizer
from keras_txl.tokenizers import TransformerXLWordTokenizer
from tests.tokenizers.conftest import make_tokenizer

# The same on every backend.
pytestmark = pytest.mark.backend("tensorflow")

# Emoji, combining marks, line ends, white space of all sorts, NUL.
ODD = "é😀e\u0301\u200d👩\u0301\n\r\t \u00a0\u2009\u3000\x1c\x85\u2028\0६İσς"
texts = st.text(st.characters(codec="utf-8") | st.sampled_from(ODD))

WORDS = ("<eos>", "<unk>", "a", "B", "né", "😀", "12", "\ufffd")
CONVENTIONS = {
    "WikiText": {},
    "no line ends": {"end_of_line_token": None},
    "One Billion": {"end_of_line_token": "S", "start_of_line_token": "S"},
    "both": {"start_of_line_token": "<s>"},
    "PTB": {"lowercase": True},
}


def in_graph(function, values, dtype):
    """Results of a function traced by TensorFlow, one value at a time."""
    spec = tf.TensorSpec((None,) if dtype != tf.string else (), dtype)
    traced = tf.function(function, input_signature=[spec])
    return [traced(tf.constant(value, dtype)).numpy() for value in values]


@pytest.fixture(scope="module", params=CONVENTIONS)
def words(request):
    return TransformerXLWordTokenizer(
        [*WORDS, "S", "<s>"], **CONVENTIONS[request.param]
    )


@given(st.lists(st.binary(max_size=20), max_size=3))
@settings(max_examples=50)
def test_bytes_pass_through_whatever_they_are(data):
    tokenizer = TransformerXLByteTokenizer()
    for item in data:
        ids = tokenizer.tokenize(item)
        assert bytes(np.asarray(ids).tolist()) == item


@given(texts)
def test_pieces_lose_nothing(text):
    for kind in ("byte-pair", "byte"):
        tokenizer = TOKENIZERS[kind]
        assert tokenizer.detokenize(tokenizer.tokenize(text)) == text


@given(texts.map(lambda text: text.replace("\0", "").replace("▁", "")))
def test_sentence_pieces_lose_nothing_but_nul_and_their_space(text):
    tokenizer = TOKENIZERS["sentence-piece"]
    assert tokenizer.detokenize(tokenizer.tokenize(text)) == text


TOKENIZERS = {
    kind: make_tokenizer(kind)
    for kind in ("byte", "byte-pair", "sentence-piece")
}


@given(texts, texts)
def test_characters_of_any_set_come_back(known, text):
    alphabet = sorted({*known, *text, "a"})
    tokenizer = TransformerXLCharacterTokenizer(alphabet)
    ids = tokenizer.tokenize(text)
    assert tokenizer.detokenize(ids) == text
    assert ids.tolist() == [alphabet.index(character) for character in text]


@given(st.lists(texts, min_size=4, max_size=4))
@settings(max_examples=5)
def test_characters_get_the_same_ids_in_graphs(batch):
    tokenizer = TransformerXLCharacterTokenizer("aé😀\ufffd", "\ufffd")
    expected = tokenizer.tokenize(batch)
    found = in_graph(tokenizer.tokenize, batch, tf.string)
    assert [row.tolist() for row in found] == expected
    back = in_graph(tokenizer.detokenize, expected, tf.int32)
    assert [text.decode() for text in back] == tokenizer.detokenize(expected)


lines = st.lists(
    st.lists(st.sampled_from(WORDS[2:]), min_size=1, max_size=4).map(" ".join),
    max_size=4,
).map("\n".join)


@given(lines, st.booleans())
def test_words_of_the_vocabulary_come_back(words, text, ends):
    text = text + "\n" if ends and text else text
    if words.lowercase:
        text = text.replace("B", "a")
    if words.end_of_line_token is None:
        text = text.replace("\n", "")
        text = " ".join(w if w in WORDS else "a" for w in text.split())
    assert words.detokenize(words.tokenize(text)) == text


@given(texts, st.booleans())
def test_words_are_what_python_splits_at(words, text, ends):
    # An independent count, line by line as the released code reads a file.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.lower() if words.lowercase else text
    vocabulary = words.get_vocabulary()
    start, end = words.start_of_line_token, words.end_of_line_token
    expected = []
    rows = text.split("\n")
    for number, row in enumerate(rows):
        last = number == len(rows) - 1
        if start and (row or not last):
            expected.append(start)
        expected += row.split()
        if end and not last:
            expected.append(end)
    ids = [
        vocabulary.index(word if word in vocabulary else "<unk>")
        for word in expected
    ]
    assert words.tokenize(text).tolist() == ids


@given(st.lists(texts | lines, min_size=4, max_size=4))
@settings(max_examples=5)
def test_words_get_the_same_ids_in_graphs(words, batch):
    if words.lowercase:  # TensorFlow drops NUL there, as documented
        batch = [text.replace("\0", "") for text in batch]
    expected = words.tokenize(batch)
    found = in_graph(words.tokenize, batch, tf.string)
    assert [row.tolist() for row in found] == expected
    back = in_graph(words.detokenize, expected, tf.int32)
    assert [text.decode() for text in back] == words.detokenize(expected)


@given(st.lists(st.binary(max_size=12), min_size=3, max_size=3))
@settings(max_examples=5)
def test_bytes_that_are_no_text_get_the_same_ids_in_graphs(batch):
    tokenizer = TransformerXLWordTokenizer(WORDS)
    found = in_graph(tokenizer.tokenize, batch, tf.string)
    assert [row.tolist() for row in found] == tokenizer.tokenize(batch)


@functools.cache
def traced(kind):
    signature = [tf.TensorSpec((), tf.string)]
    return tf.function(TOKENIZERS[kind].tokenize, input_signature=signature)


@pytest.mark.parametrize("kind", ["byte-pair", "sentence-piece"])
@given(texts.map(lambda text: text.replace("\0", "").replace("६", "")))
def test_pieces_get_the_same_ids_in_graphs(kind, text):
    found = traced(kind)(tf.constant(text)).numpy().tolist()
    assert found == np.asarray(TOKENIZERS[kind].tokenize(text)).tolist()
