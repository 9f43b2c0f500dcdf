"""Vocabularies made from texts: their order, their size, what is refused."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from keras_txl.tokenizers import TransformerXLCharacterTokenizer
from keras_txl.tokenizers import TransformerXLWordTokenizer
from keras_txl.tokenizers import train_tokenizer

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

LINES = " a b b \n c b <unk> \n\n a a b d \n"
REAL_TEXT = Path(__file__).resolve().parents[3] / "shared/data/wikitext-2"


def test_words_come_by_frequency_behind_the_line_end():
    tokenizer = train_tokenizer("word", [LINES])
    assert tokenizer.get_vocabulary() == ["<eos>", "b", "a", "c", "<unk>", "d"]
    ids = tokenizer.tokenize(LINES)
    assert ids.tolist() == [2, 1, 1, 0, 3, 1, 4, 0, 0, 2, 2, 1, 5, 0]


def test_small_vocabularies_keep_what_is_frequent_and_the_unknown_word():
    tokenizer = train_tokenizer("word", [LINES], vocabulary_size=4)
    assert tokenizer.get_vocabulary() == ["<eos>", "b", "a", "<unk>"]
    tokenizer = train_tokenizer("word", [LINES], min_count=3)
    assert tokenizer.get_vocabulary() == ["<eos>", "b", "a", "<unk>"]
    assert tokenizer.tokenize("d a").tolist() == [3, 2]
    with pytest.raises(ValueError, match="room for its special tokens"):
        train_tokenizer("word", [LINES], vocabulary_size=1)
    with pytest.raises(ValueError, match="must hold a word.*other texts"):
        train_tokenizer("word", [" \n"], end_of_line_token=None)


def test_one_billion_words_have_one_token_at_both_ends():
    tokenizer = train_tokenizer(
        "word",
        ["the ship\nthe wind\n"],
        unknown_token="<UNK>",
        end_of_line_token="<S>",
        start_of_line_token="<S>",
    )
    assert tokenizer.get_vocabulary()[:2] == ["<S>", "the"]
    assert tokenizer.tokenize("the ship\nthe wind\n").tolist() == (
        [0, 1, 2, 0, 0, 1, 3, 0]
    )
    assert tokenizer.detokenize([0, 1, 2, 0, 0, 1]) == "the ship\nthe"


def test_characters_come_by_frequency():
    tokenizer = train_tokenizer("character", ["abb", "b c"])
    assert tokenizer.get_vocabulary() == ["b", "a", " ", "c"]
    with pytest.raises(ValueError, match="must be in the vocabulary.*'x'"):
        tokenizer.tokenize("ax")
    with pytest.raises(ValueError, match="`unknown_token` must stand"):
        train_tokenizer("character", ["abb"], vocabulary_size=1)
    tokenizer = train_tokenizer(
        "character", ["abb"], vocabulary_size=2, unknown_token="?"
    )
    assert tokenizer.get_vocabulary() == ["b", "?"]
    assert tokenizer.tokenize("ab?").tolist() == [1, 0, 1]


def test_unknown_character_is_an_error_in_graphs_too():
    import tensorflow as tf

    tokenizer = TransformerXLCharacterTokenizer("ab")
    dataset = tf.data.Dataset.from_tensor_slices(["ab", "ax"]).map(tokenizer)
    with pytest.raises(tf.errors.InvalidArgumentError, match="vocabulary"):
        list(dataset)


@pytest.mark.parametrize("ids", [[0, 2], [-1], [0.5]])
def test_ids_outside_of_the_vocabulary_are_named(ids):
    tokenizer = TransformerXLCharacterTokenizer("ab")
    with pytest.raises(ValueError, match=f"Received: {ids[-1]} among"):
        tokenizer.detokenize(ids)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (["<eos>", "a"], "`unknown_token` must be in the vocabulary"),
        (["<unk>", "a"], "`end_of_line_token` must be in the vocabulary"),
        (["<unk>", "<eos>", "a b"], "must hold no white space"),
        (["<unk>", "<eos>", "a", "a"], "comes twice"),
        (["<unk>", "<eos>", ""], "is empty"),
        ([], "at least one token"),
    ],
)
def test_vocabulary_that_cannot_work_is_named(vocabulary, message):
    with pytest.raises(ValueError, match=message):
        TransformerXLWordTokenizer(vocabulary)


def test_tokenizer_without_vocabulary_says_so():
    with pytest.raises(ValueError, match="needs a vocabulary"):
        TransformerXLWordTokenizer().tokenize("a")


def test_kind_and_size_are_checked():
    with pytest.raises(ValueError, match="`kind` must be one of byte"):
        train_tokenizer("letters", [LINES])
    for kind in ("byte-pair", "sentence-piece"):
        with pytest.raises(ValueError, match="which all bytes take"):
            train_tokenizer(kind, [LINES], vocabulary_size=100)


def test_sentence_piece_says_when_a_text_is_too_short():
    with pytest.raises(ValueError, match="Use another size, or more text"):
        train_tokenizer("sentence-piece", [], vocabulary_size=300)


@pytest.mark.parametrize(
    ("kind", "package"),
    [("byte-pair", "tokenizers"), ("sentence-piece", "sentencepiece")],
)
def test_missing_package_is_named(kind, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"keras-txl\[tokenizers\]"):
        train_tokenizer(kind, [LINES], vocabulary_size=300)


@pytest.mark.skipif(
    not REAL_TEXT.is_dir(), reason="the text of WikiText-2 is not here"
)
def test_wikitext_2_has_its_published_counts():
    valid = (REAL_TEXT / "wiki.valid.tokens").read_text(encoding="utf-8")
    test = (REAL_TEXT / "wiki.test.tokens").read_text(encoding="utf-8")
    # Merity et al. 2016, table 2, with one <eos> for each line.
    assert len(valid.replace("\n", " <eos> ").split()) == 217_646
    tokenizer = train_tokenizer("word", [valid])
    ids = tokenizer.tokenize(valid)
    assert len(ids) == 217_646
    assert len(tokenizer.tokenize(test)) == 245_569
    # An independent count of words.
    counts = Counter(valid.split())
    assert tokenizer.vocabulary_size() == len(counts) + 1
    words = tokenizer.get_vocabulary()
    assert words[1:] == [word for word, _ in counts.most_common()]
    number = {word: place for place, word in enumerate(words)}
    expected = []
    for line in valid.splitlines():
        expected += [number[word] for word in line.split()] + [0]
    np.testing.assert_array_equal(ids, expected)
