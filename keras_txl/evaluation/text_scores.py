"""Losses of texts per token, per byte and per word."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.checks import check_language_model


@dataclass(frozen=True)
class TextScores:
    """Losses of texts, one entry a text; lower is likelier.

    The counts are of what was predicted: where nothing comes before a text,
    its first token is given and counts for nothing. A word is a run of bytes
    between white space.

    Args:
        nats: float64 array, summed loss of each text in nats.
        num_tokens: int64 array, predicted tokens.
        num_bytes: int64 array, bytes of UTF-8 those tokens stand for.
        num_words: int64 array, words in those bytes.
    """

    nats: np.ndarray
    num_tokens: np.ndarray
    num_bytes: np.ndarray
    num_words: np.ndarray

    @property
    def nats_per_token(self) -> np.ndarray:
        """Average loss of a token in nats; nan where there is none."""
        return _ratio(self.nats, self.num_tokens)

    @property
    def bits_per_byte(self) -> np.ndarray:
        """Loss in bits per byte; nan where there is none."""
        return _ratio(self.nats / math.log(2), self.num_bytes)

    @property
    def bits_per_word(self) -> np.ndarray:
        """Loss in bits per word; nan where there is none."""
        return _ratio(self.nats / math.log(2), self.num_words)


def score_texts(
    lm: Any, texts: Sequence[str], context: str | None = None, **options: Any
) -> TextScores:
    """Score texts as `lm.score` does, and count what was predicted.

    Args:
        lm: a `TransformerXLCausalLM` with a preprocessor.
        texts: list of str.
        context: str that comes before each text, is read once and is no part
            of the scores.
        **options: `memory_length`, `segment_length`, `batch_size` and
            `progress` of `TransformerXLCausalLM.score`.

    Returns:
        A `TextScores` with one entry a text, in the given order.

    Raises:
        TypeError: if the model is no language model.
        ValueError: if it has no preprocessor, or as `score` does.
    """
    from keras_txl.models.text_encoding import encode_texts

    check_language_model(lm)
    preprocessor = lm.preprocessor
    ids = encode_texts(
        texts,
        preprocessor,
        lm.backbone.vocabulary_size,
        start=context is None,
    )
    nats = lm.score(ids, context, **options)
    contents = [_utf8(text) for text in texts]
    lengths = np.array([len(text) for text in ids], "int64")
    if context is None:  # the first token is given
        lengths = np.maximum(lengths - 1, 0)
        if preprocessor is not None and not preprocessor.add_start_token:
            contents = [
                content[_num_bytes(preprocessor.tokenizer, text[:1]) :]
                for content, text in zip(contents, ids, strict=True)
            ]
    return TextScores(
        nats=nats,
        num_tokens=lengths,
        num_bytes=np.array([len(content) for content in contents], "int64"),
        num_words=np.array(
            [len(content.split()) for content in contents], "int64"
        ),
    )


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _utf8(text: str) -> bytes:
    # Bytes that are no UTF-8 come from a command line in this disguise.
    return text.encode("utf-8", "surrogateescape")


def _num_bytes(tokenizer: Any, ids: np.ndarray) -> int:
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    if isinstance(tokenizer, TransformerXLByteTokenizer) or not ids.size:
        return int(ids.size)  # one byte of a character is no text
    return len(_utf8(tokenizer.detokenize(ids.tolist())))
