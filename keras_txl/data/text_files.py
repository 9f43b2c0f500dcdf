"""Text files on this machine, read as byte documents."""

import glob
import itertools
import os
import random
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.data.text_pieces import TextPiece
from keras_txl.data.text_pieces import cut_pieces
from keras_txl.data.text_sources import TEXT_COLUMN
from keras_txl.data.text_sources import is_container
from keras_txl.data.text_sources import open_documents

PEEKED_BYTES = 8192
"""A NUL in so many first bytes tells a binary file."""

STDLIB_IGNORED = frozenset(  # folders at its top
    {
        # Not part of the standard library.
        "site-packages",
        "dist-packages",
        # Tests of Python itself: many installations leave them out.
        "test",
        # Tables written by programs, not text written by people.
        "encodings",
        "pydoc_data",
    }
)


@dataclass(frozen=True)
class Document:
    """One text.

    Attributes:
        name: path of the file below the source, with `/`.
        data: its bytes.
    """

    name: str
    data: bytes = field(repr=False)

    @property
    def byte_ids(self) -> np.ndarray:
        """The bytes as uint8 token ids of shape `(len(data),)`, no copy."""
        return np.frombuffer(self.data, np.uint8)


class FileDocuments(Sequence[Document]):
    """Documents that are read from their files when they are asked for.

    Args:
        root: folder that names are told from.
        paths: the files.
    """

    def __init__(self, root: Path, paths: Sequence[Path]) -> None:
        self.root = root
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return FileDocuments(self.root, self.paths[index])
        path = self.paths[index]
        return Document(path.relative_to(self.root).as_posix(), _all(path))

    @property
    def num_bytes(self) -> int:
        """Bytes of all documents, without reading them."""
        return sum(path.stat().st_size for path in self.paths)


def _all(path: Path) -> bytes:
    return _read_bytes(path, None)


def character_start(data: bytes, place: int) -> int:
    """The place, or where the character of UTF-8 that lies over it begins.

    Args:
        data: text.
        place: a place in it, or behind its end.
    """
    place = min(place, len(data))
    for start in range(place, max(place - 4, 0), -1):
        if start == len(data) or data[start] & 0xC0 != 0x80:
            return start
    return place  # this is no UTF-8


def read_documents(
    source: str,
    max_bytes: int | None,
    seed: int,
    text_column: str = TEXT_COLUMN,
) -> list[Document]:
    """Read the files of a source, each text once.

    Args:
        source: as in `load_corpus`.
        max_bytes: read no more than this many bytes; None for everything.
        seed: order of the files.
        text_column: column of JSON lines and Parquet that holds the text.

    Returns:
        Documents in seeded order, at least one, none of them empty.
    """
    skipped: list[tuple[str, str]] = []
    root, names, named = find_files(source, skipped)
    random.Random(seed).shuffle(names)
    documents: list[Document] = []
    owners: dict[bytes, str] = {}
    left = max_bytes
    for file_name in names:
        if left is not None and left <= 0:
            break
        try:
            found = list(_read_file(root, file_name, left, text_column))
        except OSError as error:
            if len(names) == 1:
                raise type(error)(
                    f"The file cannot be read. Received: source={source!r} "
                    f"({error.strerror}). Check its permissions, or pass "
                    "another file."
                ) from error
            skipped.append((file_name, "unreadable"))
            continue
        for name, data in found:
            if not data:
                skipped.append((name, "empty"))
            elif not named and b"\0" in data[:PEEKED_BYTES]:
                skipped.append((name, "binary"))
            elif data in owners:
                # A copy in another part would give the answer away.
                skipped.append((name, f"copy of {owners[data]}"))
            else:
                owners[data] = name
                documents.append(Document(name, data))
                left = None if left is None else left - len(data)
    if not documents:
        _raise_no_text(source, skipped)
    if source != "stdlib":
        _warn_skipped(source, skipped)
    return documents


def read_text_pieces(
    source: str | os.PathLike[str], text_column: str = TEXT_COLUMN
) -> Iterator[TextPiece]:
    """The documents of a source in pieces, to be encoded.

    Args:
        source: path of a file, a folder or a glob, as in `load_corpus`.
        text_column: column of JSON lines and Parquet that holds the text.

    Yields:
        Pieces of the documents, files sorted by path; binary files of a
        folder are left out.

    Example:
    ```python
    pieces = read_text_pieces("my_texts/")
    encode_corpus(pieces, "my_ids", tokenizer=tokenizer)
    ```
    """
    root, names, named = find_files(os.fspath(source), [])
    for name in names:
        for _, chunks in open_documents(root / name, name, text_column):
            first = next(chunks, b"")
            if named or b"\0" not in first[:PEEKED_BYTES]:
                yield from cut_pieces(itertools.chain([first], chunks))


def find_files(
    source: str, skipped: list[tuple[str, str]]
) -> tuple[Path, list[str], bool]:
    """The files of a source.

    Args:
        source: as in `load_corpus`.
        skipped: gets names that are left out, and why.

    Returns:
        A root folder, sorted names below it, and whether they were named one
        by one.
    """
    root, paths, named = _find(source, skipped)
    return root, sorted(p.relative_to(root).as_posix() for p in paths), named


def _read_file(
    root: Path, name: str, limit: int | None, text_column: str
) -> Iterator[tuple[str, bytes]]:
    """The documents of a file, `limit` bytes of them together."""
    if not is_container(name):
        yield name, _read_bytes(root / name, limit)
        return
    for document, chunks in open_documents(root / name, name, text_column):
        data = b"".join(_limited(chunks, limit))
        yield document, data
        limit = None if limit is None else limit - len(data)
        if limit is not None and limit <= 0:
            return


def _limited(chunks: Iterator[bytes], limit: int | None) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk if limit is None else chunk[:limit]
        limit = None if limit is None else limit - len(chunk)
        if limit is not None and limit <= 0:
            return


def _find(
    source: str, skipped: list[tuple[str, str]]
) -> tuple[Path, list[Path], bool]:
    """Return a root folder, files below it, and whether they were named."""
    if source == "stdlib":
        root = Path(sysconfig.get_path("stdlib"))
        return root, list(_stdlib_files(root)), False
    path = os.path.expanduser(source)
    if os.path.isdir(path):
        if not os.access(path, os.R_OK | os.X_OK):
            raise PermissionError(
                f"The folder cannot be read. Received: source={source!r}. "
                "Check its permissions, or pass another folder."
            )
        return Path(path), list(_folder_files(path, skipped)), False
    if os.path.isfile(path):
        return Path(path).parent, [Path(path)], True
    if os.path.exists(path):
        raise ValueError(
            "`source` must be a regular file, a folder or a glob. Received: "
            f"source={source!r}, which is a device or a pipe. Write its "
            "contents to a file first."
        )
    matches = [Path(match) for match in glob.glob(path, recursive=True)]
    files = [match for match in matches if match.is_file()]
    if not files:
        raise FileNotFoundError(
            f"No such file, folder or glob match. Received: source={source!r} "
            f"in {os.getcwd()!r}. Pass the path of a text file, a folder of "
            'text files, a glob such as "texts/**/*.txt", or "stdlib".'
        )
    root = Path(os.path.commonpath([file.parent for file in files]))
    return root, files, True


def _stdlib_files(root: Path) -> Iterator[Path]:
    for path in _folder_files(str(root), [], STDLIB_IGNORED):
        # The build configuration is a table written by a program, too.
        if path.suffix == ".py" and not path.name.startswith("_sysconfigdata"):
            yield path


def _folder_files(
    folder: str,
    skipped: list[tuple[str, str]],
    ignored: frozenset[str] = frozenset(),
) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        name = os.path.relpath(str(error.filename), folder)
        skipped.append((name, "unreadable"))

    for place, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name != "__pycache__"
            and not (place == folder and name in ignored)
        ]
        for name in names:
            path = Path(place, name)
            # Reading a pipe or a device could wait for ever.
            if not name.startswith(".") and path.is_file():
                yield path


def _read_bytes(path: Path, limit: int | None) -> bytes:
    with open(path, "rb") as file:
        return file.read(-1 if limit is None else limit)


def _raise_no_text(source: str, skipped: list[tuple[str, str]]) -> None:
    if source == "stdlib":
        place = sysconfig.get_path("stdlib")
        raise FileNotFoundError(
            "The sources of Python's standard library are not installed. "
            f"Received: source='stdlib', looked in {place!r}. Pass a text "
            "file, a folder or a glob as `source` instead."
        )
    reasons = Counter(reason.split()[0] for _, reason in skipped)
    found = ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))
    raise ValueError(
        f"There is no text to read. Received: source={source!r} with "
        f"{found or 'no files'}. Pass a file or a folder that holds text; a "
        "binary file is read when it is named by itself."
    )


def _warn_skipped(source: str, skipped: list[tuple[str, str]]) -> None:
    listed = [(n, why) for n, why in skipped if why != "empty"]
    if not listed:
        return
    shown = ", ".join(f"{name} ({why})" for name, why in listed[:5])
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    warnings.warn(
        f"Left out {len(listed)} files of {source!r}: {shown}{more}.",
        stacklevel=4,
    )
