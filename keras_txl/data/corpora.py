"""Corpora as byte documents in three parts: published ones, files, data sets.

A file on this machine is a document. Files are read in binary, sorted by path,
and dealt out to train, validation and test with a seed. Published corpora come
in the parts that others have measured.
"""

import os
import random
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.data.downloads import cache_folder
from keras_txl.data.published_corpora import PUBLISHED
from keras_txl.data.published_corpora import published_parts
from keras_txl.data.text_files import Document
from keras_txl.data.text_files import FileDocuments
from keras_txl.data.text_files import character_start
from keras_txl.data.text_files import read_documents
from keras_txl.data.text_sources import TEXT_COLUMN
from keras_txl.data.text_sources import documents_of_rows

PARTS = ("train", "validation", "test")

TEST_BYTES = 200_000
"""Wanted size of the test part, where it is a tenth of the corpus or less."""


@dataclass(frozen=True)
class Corpus:
    """Three parts that share no text.

    Attributes:
        source: what was loaded.
        train, validation, test: documents, sorted by name. Those of `lm1b`
            and `pg19` are read from disk when they are asked for.
    """

    source: str
    train: Sequence[Document] = field(repr=False)
    validation: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each part."""
        return {part: _num_bytes(getattr(self, part)) for part in PARTS}


def _num_bytes(documents: Sequence[Document]) -> int:
    if isinstance(documents, FileDocuments):
        return documents.num_bytes
    return sum(len(document.data) for document in documents)


def load_corpus(
    source: Any = "stdlib",
    *,
    validation_fraction: float = 0.05,
    test_fraction: float = 0.05,
    max_bytes: int | None = None,
    minimum_bytes: int = 2,
    seed: int = 0,
    text_column: str = TEXT_COLUMN,
    folder: str | os.PathLike[str] | None = None,
) -> Corpus:
    """Read text in three parts: train, validation and test.

    Published corpora have the parts of their authors: `"enwik8"` and
    `"text8"` (the last 5 MB for the test, the 5 MB before for validation),
    `"wikitext-103"`, `"wikitext-2"` and `"ptb"` (a file each), `"lm1b"` (all
    training shards; held-out shard 0 for both other parts, as in the released
    code) and `"pg19"` (28,752 books, a file each). They are downloaded once,
    checked, and kept in `folder`; a download that broke goes on. For those,
    fractions, sizes and seed do not matter.

    All other text is split by file. With one file, or where whole files
    cannot make up the wanted sizes, the end of every file goes to validation
    and test.

    Args:
        source: the name of a published corpus; `"stdlib"` for the sources of
            Python's standard library as installed (about 12 MB); or the path
            of a file, of a folder (every text file in it, hidden ones left
            out), or a glob. A file named by its path or by a glob is read
            whatever it holds; in a folder, binary files are left out. Files
            ending in `.gz`, `.bz2`, `.xz` and `.zst` are decompressed; each
            file of a `.zip`, `.tar` and `.tgz` is a document, and each row of
            JSON lines (`.jsonl`) and Parquet (`.parquet`). Or a data set of
            Hugging Face `datasets` or `tensorflow-datasets`, or a dict of
            such by part; any iterable of texts or of dicts will do.
        validation_fraction: share of the bytes for validation, in [0, 1).
        test_fraction: share of the bytes for the test, in [0, 1). Unless it is
            0, the part is at least the smaller of 200 kB and a tenth of the
            corpus.
        max_bytes: read no more than this many bytes, from files drawn with
            the seed. Default: everything.
        minimum_bytes: smallest allowed size of a part whose share is not 0.
            Pass `segment_length + 1` for at least one whole segment.
        seed: which files are drawn for which part.
        text_column: column of a table or data set that holds the text.
        folder: where downloads are kept. Default: `corpora` in `KERAS_HOME`
            or `~/.keras`.

    Returns:
        A `Corpus`.

    Raises:
        FileNotFoundError: if there is no such file or folder.
        ConnectionError: if a download fails; it says what to do by hand.
        PermissionError: if it may not be read.
        ValueError: if there is no text, or too little of it.

    Example:

    ```python
    corpus = keras_txl.data.load_corpus("my_texts/")
    stream = keras_txl.data.SegmentStream(
        [document.byte_ids for document in corpus.train],
        batch_size=16,
        segment_length=64,
    )
    ```
    """
    shares = _checked_shares(validation_fraction, test_fraction)
    check_optional_integer("max_bytes", max_bytes, 1)
    check_integer("minimum_bytes", minimum_bytes, 1)
    is_name = isinstance(source, (str, os.PathLike))
    if is_name and os.fspath(source) in PUBLISHED:
        name = os.fspath(source)
        place = cache_folder() if folder is None else Path(folder)
        return Corpus(name, **published_parts(name, place))
    if is_name:
        name = os.fspath(source)
        documents = read_documents(name, max_bytes, seed, text_column)
    else:
        name = type(source).__name__
        given = _given_parts(source, name, text_column)
        if given is not None:
            return Corpus(name, **given)
        documents = _rows(source, name, text_column)
        random.Random(seed).shuffle(documents)
    total = sum(len(document.data) for document in documents)
    if shares["test"]:
        shares["test"] = max(shares["test"], min(TEST_BYTES / total, 0.1))
    parts = _split_by_file(documents, total, shares) or _cut_files(
        documents, shares
    )
    corpus = Corpus(
        name,
        **{
            part: tuple(sorted(parts[part], key=lambda document: document.name))
            for part in PARTS
        },
    )
    _check_sizes(corpus, {"train": 1, **shares}, minimum_bytes)
    return corpus


def _checked_shares(
    validation_fraction: float, test_fraction: float
) -> dict[str, float]:
    """Shares of the bytes by part, in the order the parts are filled."""
    validation = check_fraction("validation_fraction", validation_fraction)
    test = check_fraction("test_fraction", test_fraction)
    if validation + test >= 1:
        raise ValueError(
            "`validation_fraction` and `test_fraction` must leave something "
            f"to train on. Received: {validation} and {test}. Use a sum "
            "below 1."
        )
    return {"test": test, "validation": validation}


def _rows(source: Any, name: str, column: str) -> list[Document]:
    documents = [
        Document(row, data)
        for row, data in documents_of_rows(source, name, column)
        if data
    ]
    if not documents:
        raise ValueError(
            "There is no text to read. Received: a data set without a text. "
            "Pass another one, or choose its text_column."
        )
    return documents


def _given_parts(source: Any, name: str, column: str) -> Any:
    """The parts of a data set that comes in parts, else None."""
    if not isinstance(source, Mapping):
        return None
    if "train" not in source:
        raise ValueError(
            "A data set in parts must have the part train. Received: "
            f"{', '.join(map(str, source))}. Pass one part alone to have it "
            "split."
        )
    found = {
        part: next((source[n] for n in names if n in source), ())
        for part, names in zip(
            PARTS, (["train"], ["validation", "valid"], ["test"]), strict=True
        )
    }
    return {
        part: tuple(_rows(rows, f"{name}/{part}", column)) if rows else ()
        for part, rows in found.items()
    }


def _split_by_file(
    documents: list[Document], total: int, shares: dict[str, float]
) -> dict[str, list[Document]] | None:
    """Deal out whole files, or return None if they do not make the sizes."""
    parts: dict[str, list[Document]] = {part: [] for part in PARTS}
    sizes = dict.fromkeys(PARTS, 0)
    for document in documents:
        home = "train"
        for part, share in shares.items():
            wanted = share * total
            # A large file must not make a part twice as large as wanted.
            if sizes[part] < wanted >= (sizes[part] + len(document.data)) / 2:
                home = part
                break
        parts[home].append(document)
        sizes[home] += len(document.data)
    filled = all(sizes[part] >= share * total for part, share in shares.items())
    return parts if filled and parts["train"] else None


def _cut_files(
    documents: list[Document], shares: dict[str, float]
) -> dict[str, list[Document]]:
    """Give the beginning of every file to train, then validation, test."""
    parts: dict[str, list[Document]] = {part: [] for part in PARTS}
    for document in documents:
        size = len(document.data)
        second = size - round(size * shares["test"])
        first = second - round(size * shares["validation"])
        first = character_start(document.data, first)
        second = character_start(document.data, second)
        borders = (0, first, second, size)
        for part, start, stop in zip(PARTS, borders, borders[1:], strict=False):
            if start < stop:
                piece = Document(document.name, document.data[start:stop])
                parts[part].append(piece)
    return parts


def _check_sizes(
    corpus: Corpus, shares: dict[str, float], minimum_bytes: int
) -> None:
    for part, size in corpus.sizes.items():
        if shares[part] and size < minimum_bytes:
            raise ValueError(
                f"The {part} part of the corpus is too short. Received: "
                f"source={corpus.source!r} with {size} bytes in that part, "
                f"minimum_bytes={minimum_bytes}. Use more text, a larger "
                "fraction or shorter segments."
            )
