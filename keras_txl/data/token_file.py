"""Encoded corpora on disk: a folder of token ids, memory-mapped when read.

| file | holds |
|---|---|
| `header.json` | format, type, counts, tokenizer hash, checksums |
| `tokens.bin` | the ids of all documents end to end, little-endian |
| `documents.bin` | where each document ends, int64 |
"""

import json
import mmap
import os
import weakref
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.data.document_layout import read_pairs

HEADER = "header.json"
TOKENS = "tokens.bin"
DOCUMENTS = "documents.bin"

FORMAT = "keras_txl tokens"
VERSION = 1

BLOCK_BYTES = 2**26
"""Bytes of the tokens that one checksum is about."""

CHECKED_BYTES = 2**26
"""Files up to this size are checked whole whenever they are opened."""


def smallest_type(vocabulary_size: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds all ids below a size."""
    for name in ("uint8", "uint16"):
        if vocabulary_size <= np.iinfo(name).max + 1:
            return np.dtype(name)
    return np.dtype("<u4")


class TokenFile:
    """An encoded corpus, read from disk as a stream needs it.

    `SegmentStream` takes it in place of documents, and reads of it what each
    segment needs, however long the corpus.

    Args:
        path: folder that `keras-txl data encode` or `encode_corpus` wrote.
        verify: whether to compare all checksums, which reads everything.
            Default: for corpora of up to 64 MiB.

    Attributes:
        header: dict, what `header.json` holds.
        num_tokens, num_documents: counts.
        ids: all tokens, memory-mapped.
        lengths: int64 array, tokens of each document.

    Raises:
        FileNotFoundError: if there is no encoded corpus.
        ValueError: if it is damaged or cut short.

    Example:
    ```python
    encode_corpus(["some text", "more"], "my_ids", tokenizer=tokenizer)
    tokens = TokenFile("my_ids")
    tokens.document(1)  # the ids of "more"
    stream = SegmentStream(tokens, batch_size=2, segment_length=4)
    ```
    """

    def __init__(
        self, path: str | os.PathLike[str], verify: bool | None = None
    ) -> None:
        self.path = Path(path)
        self.header = _read_header(self.path)
        dtype = np.dtype(self.header["dtype"])
        self.num_tokens = int(self.header["num_tokens"])
        self.num_documents = int(self.header["num_documents"])
        size = self.num_tokens * dtype.itemsize
        self._check_size(TOKENS, size)
        self._check_size(DOCUMENTS, self.num_documents * 8)
        ends = np.fromfile(self.path / DOCUMENTS, "<i8")
        self._check_sum(DOCUMENTS, zlib.crc32(ends.tobytes()), 0)
        self.lengths = np.diff(ends, prepend=0)
        self._starts = ends - self.lengths
        self._number: int | None = None  # of the open file
        if size:
            with open(self.path / TOKENS, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                if hasattr(os, "pread"):
                    self._number = os.dup(file.fileno())
                    weakref.finalize(self, os.close, self._number)
            self.ids = np.frombuffer(self._map, dtype)
        else:
            self.ids = np.zeros(0, dtype)
        if verify or (verify is None and size <= CHECKED_BYTES):
            self.verify()

    def __len__(self) -> int:
        return self.num_documents

    def __reduce__(self) -> Any:
        # Another process maps the file itself.
        return type(self), (self.path, False)

    @property
    def largest_id(self) -> int:
        """The last id of the vocabulary; none is larger."""
        return int(self.header["vocabulary_size"]) - 1

    def document(self, number: int) -> np.ndarray:
        """The ids of a document, not copied.

        Args:
            number: which, from 0.
        """
        start = self._starts[number]
        return self.ids[start : start + self.lengths[number]]

    def read(
        self, starts: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of pieces, and those behind them; see `read_pairs`."""
        if self._number is None or not len(starts):
            return read_pairs(self.ids, starts, lengths)
        # Read, not mapped: a page that is mapped anew for a short document
        # costs more than the document, and would have to be given back.
        size = self.ids.itemsize
        apart = starts[1:] != (starts + lengths + 1)[:-1]
        runs = np.flatnonzero(np.concatenate([[True], apart]))
        places = zip(
            (np.add.reduceat(lengths + 1, runs) * size).tolist(),
            (starts[runs] * size).tolist(),
            strict=True,
        )
        pieces = [os.pread(self._number, *place) for place in places]
        ids = np.frombuffer(b"".join(pieces), self.ids.dtype)
        last = np.cumsum(lengths + 1) - 1  # of each piece: only a target
        inner = np.ones((2, len(ids)), bool)
        inner[0, last] = inner[1, last - lengths] = False
        return ids[inner[0]], ids[inner[1]]

    def release(self) -> None:
        """Give mapped memory back to the system, where it can be told so."""
        if hasattr(mmap, "MADV_DONTNEED") and self.num_tokens:
            self._map.madvise(mmap.MADV_DONTNEED)

    def verify(self) -> None:
        """Compare all checksums.

        Raises:
            ValueError: if what is on disk is not what was written.
        """
        step = BLOCK_BYTES // self.ids.itemsize
        for number in range(-(-self.num_tokens // step)):
            block = self.ids[number * step : (number + 1) * step]
            self._check_sum(TOKENS, zlib.crc32(block.data), number)
            self.release()

    def _check_size(self, name: str, expected: int) -> None:
        path = self.path / name
        size = path.stat().st_size if path.is_file() else 0
        if size != expected:
            raise ValueError(
                "An encoded corpus must have the size that its header says. "
                f"Received: {str(path)!r} of {size:,} bytes instead of "
                f"{expected:,}. Copy it anew, or encode the text again."
            )

    def _check_sum(self, name: str, found: int, block: int) -> None:
        if found != self.header["checksums"][name][block]:
            raise ValueError(
                "An encoded corpus must be as it was written. Received: "
                f"{str(self.path / name)!r}, which is damaged in block "
                f"{block}. Copy it anew, or encode the text again."
            )


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    if not path.is_file():
        raise FileNotFoundError(
            f"An encoded corpus must be a folder with a {HEADER}. Received: "
            f"{str(folder)!r}, which has none. Make one, or finish one that "
            "was interrupted, with: keras-txl data encode"
        )
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError(f"it is of format {header.get('format')!r}")
        counts = [
            header[name]
            for name in ("vocabulary_size", "num_tokens", "num_documents")
        ]
        if any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"counts {counts}")
        dtype = smallest_type(counts[0])
        if np.dtype(header["dtype"]) != dtype:
            raise ValueError(f"type {header['dtype']!r}")
        blocks = -(-counts[1] * dtype.itemsize // BLOCK_BYTES)
        sums = header["checksums"]
        if (len(sums[TOKENS]), len(sums[DOCUMENTS])) != (blocks, 1):
            raise ValueError(f"{len(sums[TOKENS])} checksums")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{HEADER} must be that of an encoded corpus. Received: "
            f"{str(path)!r} ({type(error).__name__}: {error}). Encode the "
            "text again."
        ) from error
    found: dict[str, Any] = header
    return found
