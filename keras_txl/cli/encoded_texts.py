"""Texts as the tokens of a tokenizer, and losses in its unit."""

import math
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.data import TokenFile
from keras_txl.data.token_file import HEADER
from keras_txl.tokenizers import TransformerXLByteTokenizer
from keras_txl.tokenizers import TransformerXLCharacterTokenizer
from keras_txl.tokenizers import load_tokenizer


def make_tokenizer(path: str | Path | None) -> Any:
    """The tokenizer in a folder, or that of bytes for `None`."""
    return (
        TransformerXLByteTokenizer() if path is None else load_tokenizer(path)
    )


def tokenizer_of(lm: Any) -> Any:
    """The tokenizer of a model.

    Raises:
        ValueError: if it has none.
    """
    if lm.preprocessor is None:
        raise ValueError(
            "The command line needs a model with a tokenizer. Received: a "
            "model without. Use keras_txl.evaluation.evaluate_stream in "
            "Python instead."
        )
    return lm.preprocessor.tokenizer


def is_encoded(source: str | Path) -> bool:
    """Whether a source is a folder that `keras-txl data encode` wrote."""
    return Path(source, HEADER).is_file()


def open_encoded(source: str | Path, tokenizer: Any) -> TokenFile:
    """The encoded corpus in a folder.

    Raises:
        ValueError: if it was made with another tokenizer.
    """
    tokens = TokenFile(source)
    told = tokens.header.get("settings", {})
    if told.get("tokenizer_sha256") != tokenizer.fingerprint:
        raise ValueError(
            "An encoded corpus needs the tokenizer that it was made with. "
            f"Received: {str(source)!r}, made with a {told.get('tokenizer')} "
            f"of another vocabulary than this {type(tokenizer).__name__}. "
            "Pass that with --tokenizer, or encode the text again."
        )
    return tokens


def encode_documents(
    tokenizer: Any, documents: Sequence[bytes]
) -> list[np.ndarray]:
    """Tokens of documents, each a 1-D integer array."""
    if isinstance(tokenizer, TransformerXLByteTokenizer):
        return [np.frombuffer(data, "uint8") for data in documents]
    return [np.asarray(tokenizer.tokenize(data)) for data in documents]


def target_bytes(
    tokenizer: Any, documents: Sequence[bytes], ids: Sequence[np.ndarray]
) -> list[int]:
    """Bytes that the predicted tokens of each document stand for.

    The first token is given. An unknown word counts with the bytes that the
    text has in its place.

    Args:
        tokenizer: the tokenizer.
        documents: the texts.
        ids: their tokens.
    """
    return [
        max(len(data) - _first_bytes(tokenizer, tokens), 0)
        for data, tokens in zip(documents, ids, strict=True)
    ]


def target_words(
    tokenizer: Any, documents: Sequence[bytes], ids: Sequence[np.ndarray]
) -> list[int]:
    """Words, runs of bytes between white space, in the predicted tokens.

    Args:
        tokenizer: the tokenizer.
        documents: the texts.
        ids: their tokens.
    """
    return [
        len(data[_first_bytes(tokenizer, tokens) :].split())
        for data, tokens in zip(documents, ids, strict=True)
    ]


def _first_bytes(tokenizer: Any, ids: np.ndarray) -> int:
    if isinstance(tokenizer, TransformerXLByteTokenizer) or not len(ids):
        return min(len(ids), 1)
    return len(tokenizer.detokenize([int(ids[0])]).encode())


def unit_of(tokenizer: Any) -> str:
    """What a token is called: byte, character or token."""
    if isinstance(tokenizer, TransformerXLByteTokenizer):
        return "byte"
    if isinstance(tokenizer, TransformerXLCharacterTokenizer):
        return "character"
    return "token"


def tell_loss(nats: float, tokenizer: Any) -> str:
    """A loss in nats per token, in the words of the kind of tokenizer."""
    unit = unit_of(tokenizer)
    if unit == "token":
        return f"perplexity {math.exp(min(nats, 700.0)):,.2f}"
    return f"{nats / math.log(2):.4f} bits per {unit}"


def make_encoder(path: str | Path | None) -> Callable[[bytes], np.ndarray]:
    """A function from bytes to ids, for a process that encodes."""
    tokenizer = make_tokenizer(path)
    return lambda data: encode_documents(tokenizer, [data])[0]
