"""What is counted of texts, per token, per byte and per word."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from keras_txl.evaluation import score_texts
from keras_txl.tokenizers import TransformerXLByteTokenizer

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

TEXTS = ["été à Rome", "a b", "x", ""]


class Words:
    """A tokenizer over words, each told by its length."""

    start_token_id = 0
    end_token_id = None

    def __call__(self, texts):
        return [[len(word) for word in text.split()] for text in texts]

    def detokenize(self, ids):
        return " ".join("é" * size for size in ids)


class Model:
    """Each predicted token costs 2 nats."""

    backbone = SimpleNamespace(vocabulary_size=256)
    token_losses = None  # language models have them

    def __init__(self, tokenizer, add_start_token=False):
        self.preprocessor = SimpleNamespace(
            tokenizer=tokenizer,
            add_start_token=add_start_token,
            add_end_token=False,
        )

    def score(self, ids, context=None, **options):
        assert options == {"batch_size": 3}
        given = 0 if context else 1
        return np.array([2.0 * max(len(text) - given, 0) for text in ids])


def scores_of(*arguments, context=None):
    model = Model(*arguments)
    return score_texts(model, TEXTS, context, batch_size=3)


def test_the_first_byte_is_given_and_counts_for_nothing():
    scores = scores_of(TransformerXLByteTokenizer())
    assert scores.num_tokens.tolist() == [12, 2, 0, 0]
    assert scores.num_bytes.tolist() == [12, 2, 0, 0]
    assert scores.num_words.tolist() == [3, 1, 0, 0]
    assert scores.nats_per_token[:2].tolist() == [2, 2]
    bits = 2 / math.log(2)
    assert scores.bits_per_byte[:2] == pytest.approx([bits, bits])
    assert scores.bits_per_word[:2] == pytest.approx([4 * bits, 2 * bits])
    for values in (scores.bits_per_byte, scores.bits_per_word):
        assert np.isnan(values[2:]).all()


def test_after_a_context_every_byte_counts():
    scores = scores_of(TransformerXLByteTokenizer(), context="And ")
    assert scores.num_tokens.tolist() == [13, 3, 1, 0]
    assert scores.num_bytes.tolist() == [13, 3, 1, 0]
    assert scores.num_words.tolist() == [3, 2, 1, 0]


def test_a_given_word_counts_for_nothing():
    scores = scores_of(Words())
    assert scores.num_tokens.tolist() == [2, 1, 0, 0]
    assert scores.num_words.tolist() == [2, 1, 0, 0]


def test_a_start_token_is_given_and_is_no_part_of_the_text():
    scores = scores_of(Words(), True)
    assert scores.num_tokens.tolist() == [3, 2, 1, 0]
    assert scores.num_bytes.tolist() == [13, 3, 1, 0]
    assert scores.num_words.tolist() == [3, 2, 1, 0]


def test_bytes_of_a_shell_that_are_no_text_count_one_each():
    model = Model(TransformerXLByteTokenizer())
    text = b"a \xff\xfe".decode("utf-8", "surrogateescape")
    scores = score_texts(model, [text], batch_size=3)
    assert scores.num_bytes.tolist() == scores.num_tokens.tolist() == [3]
