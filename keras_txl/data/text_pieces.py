"""Documents of any size in pieces that encode like the whole.

A piece ends where no tokenizer of this package joins what is on both sides:
behind a line end, before a single space between words, at worst between two
characters. (Where there are no such line ends for long, a word tokenizer with a
token for the start of a line begins one at the piece.)
"""

import re
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from typing import Any

PIECE_BYTES = 2**20
"""Wanted size of a piece."""

SEARCHED_BYTES = 2**16
"""How far back from there an end is looked for."""

_INK = r"[^\s\udc80-\udcff]"  # neither space nor half a character
_LINE_END = re.compile(rf"(?<={_INK})\n(?={_INK})|\n(?= {_INK})")
_WORD_END = re.compile(rf"(?<={_INK})(?= {_INK})")
_ENDS_LINE = re.compile(r"\n(?=[^\r\n])")


@dataclass(frozen=True)
class TextPiece:
    """A piece of a document.

    Attributes:
        data: its bytes.
        ends_document: whether it is the last one.
    """

    data: bytes = field(repr=False)
    ends_document: bool = True


def pieces_of_texts(texts: Iterable[Any]) -> Iterator[TextPiece]:
    """Texts as pieces; pieces stay as they are.

    Args:
        texts: str, bytes or `TextPiece`.
    """
    for text in texts:
        if isinstance(text, TextPiece):
            yield text
        else:
            data = text.encode() if isinstance(text, str) else bytes(text)
            yield from cut_pieces([data])


def cut_pieces(chunks: Iterable[bytes]) -> Iterator[TextPiece]:
    """One document, given in chunks, as pieces of about `PIECE_BYTES`.

    Args:
        chunks: its bytes in order, cut anywhere.
    """
    waiting = b""
    for chunk in chunks:
        waiting += chunk
        while len(waiting) > PIECE_BYTES + SEARCHED_BYTES:
            place = piece_end(waiting)
            yield TextPiece(waiting[:place], False)
            waiting = waiting[place:]
    yield TextPiece(waiting)


def piece_end(data: bytes) -> int:
    """Where the first piece of more than `PIECE_BYTES` ends."""
    start = PIECE_BYTES - SEARCHED_BYTES
    near = data[start : PIECE_BYTES + 2].decode(errors="surrogateescape")
    for pattern in (_LINE_END, _WORD_END, _ENDS_LINE):
        ends = [match.end() for match in pattern.finditer(near)]
        if ends:
            before = near[: ends[-1]].encode(errors="surrogateescape")
            return start + len(before)
    place = PIECE_BYTES
    while place > PIECE_BYTES - 4 and data[place] & 0xC0 == 0x80:
        place -= 1
    return place
