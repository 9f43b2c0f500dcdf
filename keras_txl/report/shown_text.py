"""The text of tokens, in pieces that can be shown, with their losses."""

import math
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_txl.generation import IncrementalText


@dataclass(frozen=True)
class Piece:
    """A piece of text and what it cost.

    Args:
        text: whole characters; those of several tokens stand together.
        with_memory: loss of its tokens in bits; `None` where a document
            begins, whose first token is given.
        without_memory: the same, read without memory.
    """

    text: str
    with_memory: float | None
    without_memory: float | None


def shown_pieces(
    detokenize: Callable[[list[int]], str],
    documents: Sequence[np.ndarray],
    with_memory: Sequence[np.ndarray],
    without_memory: Sequence[np.ndarray],
    num_tokens: int,
) -> list[Piece]:
    """The first tokens of documents as pieces of text.

    Args:
        detokenize: turns a list of ids into a string.
        documents: 1-D integer arrays.
        with_memory: losses of each document in nats, shorter by one.
        without_memory: the same, read without memory.
        num_tokens: how many tokens are shown at most.

    Returns:
        The pieces in order.
    """
    pieces: list[Piece] = []
    readings = zip(documents, with_memory, without_memory, strict=True)
    for ids, warm, cold in readings:
        shown = ids[:num_tokens]
        num_tokens -= len(shown)
        text = IncrementalText(detokenize)
        begin = 0  # first token whose text has not come yet
        for place, token in enumerate(shown):
            told = text.add([token])
            if told:
                end = place + 1 - len(text.held)
                pieces.append(_piece(told, begin, end, warm, cold))
                begin = end
        rest = text.flush()
        if rest:
            pieces.append(_piece(rest, begin, len(shown), warm, cold))
    return pieces


def printable(text: str) -> str:
    """`text` without what would move the cursor or colour a terminal."""
    return "".join(
        c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def _piece(
    text: str, begin: int, end: int, warm: np.ndarray, cold: np.ndarray
) -> Piece:
    if begin == 0:
        return Piece(text, None, None)
    losses = slice(begin - 1, end - 1)
    return Piece(
        text,
        float(warm[losses].sum()) / math.log(2),
        float(cold[losses].sum()) / math.log(2),
    )
