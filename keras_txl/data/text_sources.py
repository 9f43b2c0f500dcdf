"""Text out of files of any kind: plain, compressed, archives, tables.

Everything is read in chunks, so that a file may be larger than memory. Which
kind a file is, its name says.
"""

import bz2
import gzip
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from typing import Any

CHUNK_BYTES = 2**20

TEXT_COLUMN = "text"

NamedChunks = Iterator[tuple[str, Iterator[bytes]]]
"""Documents by name, each as its bytes in chunks, to be read in order."""


def is_container(name: str) -> bool:
    """Whether a file of this name is not itself the text."""
    return Path(name).suffix.lower() in _CONTAINERS


def open_documents(
    path: Path, name: str, text_column: str = TEXT_COLUMN
) -> NamedChunks:
    """The documents in a file, in chunks.

    Args:
        path: the file.
        name: what it is called in the names of its documents.
        text_column: column of JSON lines and Parquet that holds the text.

    Yields:
        Name and chunks of each document. The chunks must be read before the
        next document.

    Raises:
        ValueError: if an archive is damaged, or a column is missing.
        ImportError: if a package is missing.
    """
    with _told_if_damaged(path), open(path, "rb") as file:
        for document, chunks in _open(file, name, text_column):
            yield document, _guarded(chunks, path)


def _guarded(chunks: Iterator[bytes], path: Path) -> Iterator[bytes]:
    with _told_if_damaged(path):
        yield from chunks


@contextmanager
def _told_if_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (
        EOFError,
        OSError,
        RuntimeError,  # a zip file with a password, or of a rare method
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
        tarfile.TarError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; those of decompression have no number
        raise ValueError(
            "The file must be whole and readable without a password. Received: "
            f"{str(path)!r} ({type(error).__name__}: {error}). Copy or "
            "download it anew, or unpack it first."
        ) from error


def _open(file: IO[bytes], name: str, column: str) -> NamedChunks:
    suffix = Path(name).suffix.lower()
    if suffix in _CONTAINERS:
        yield from _CONTAINERS[suffix](file, name, column)
    else:
        yield name, _chunks(file)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _decompressed(
    opener: Callable[[IO[bytes]], Any],
) -> Callable[[IO[bytes], str, str], NamedChunks]:
    def read(file: IO[bytes], name: str, column: str) -> NamedChunks:
        with opener(file) as inner:
            inside = name[: name.rindex(".")]
            yield from _open(inner, inside, column)

    return read


def _open_zst(file: IO[bytes]) -> Any:
    return _pyarrow("Reading .zst").CompressedInputStream(file, "zstd")


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package pyarrow. Install it with: "
            "pip install 'keras-txl[data]'"
        ) from error
    return pyarrow


def _read_zip(file: IO[bytes], name: str, column: str) -> NamedChunks:
    with zipfile.ZipFile(file) as archive:
        for entry in sorted(archive.namelist()):
            if _is_text_entry(entry):
                with archive.open(entry) as inner:
                    yield from _open(inner, f"{name}/{entry}", column)


def _read_tar(file: IO[bytes], name: str, column: str) -> NamedChunks:
    # In the order of the archive: it is read once, from front to back.
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for entry in archive:
            inner = archive.extractfile(entry) if entry.isfile() else None
            if inner is not None and _is_text_entry(entry.name):
                yield from _open(inner, f"{name}/{entry.name}", column)


def _is_text_entry(entry: str) -> bool:
    parts = entry.split("/")
    return not entry.endswith("/") and not any(
        (part.startswith(".") and part != ".") or part == "__MACOSX"
        for part in parts
    )


def _read_json_lines(file: IO[bytes], name: str, column: str) -> NamedChunks:
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)[column]
            data = None if text is None else _utf8(text)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(
                "Each line must be a JSON object with a column of text. "
                f"Received: line {number} of {name!r} without {column!r} "
                f"({type(error).__name__}). Choose another text_column."
            ) from error
        if data is not None:
            yield f"{name}:{number}", iter([data])


def _utf8(text: str | bytes) -> bytes:
    """A text as bytes; half a surrogate pair, as JSON may hold, is no UTF-8."""
    if not isinstance(text, (str, bytes)):
        raise TypeError(type(text).__name__)
    if isinstance(text, str):
        return text.encode(errors="surrogatepass")
    return bytes(text)


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in _chunks(file):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    yield rest


def _read_parquet(file: IO[bytes], name: str, column: str) -> NamedChunks:
    pyarrow = _pyarrow("Reading Parquet")
    from pyarrow import parquet

    try:
        seekable = file.seekable()
    except AttributeError:  # a tar archive, as it is opened here
        seekable = False
    if not seekable:
        raise ValueError(
            "Parquet must not lie in .tar, .tgz or .zst, which are read once, "
            f"from front to back. Received: {name!r}. Unpack it first."
        )
    try:
        table = parquet.ParquetFile(file)
        columns = table.schema_arrow.names
        if column not in columns:
            raise ValueError(
                f"The column must be one of {', '.join(columns)}. Received: "
                f"{column!r} for {name!r}. Choose another text_column."
            )
        batches = table.iter_batches(batch_size=256, columns=[column])
        rows = (row for batch in batches for row in batch.column(0).to_pylist())
        for number, row in enumerate(rows, 1):
            if row is not None:
                yield f"{name}:{number}", iter([_utf8(row)])
    except pyarrow.ArrowException as error:
        raise OSError(str(error)) from error
    except TypeError as error:
        raise ValueError(
            f"The column must hold texts. Received: {column!r} of {name!r} "
            f"with {error}. Choose another text_column."
        ) from error


_CONTAINERS: dict[str, Callable[[IO[bytes], str, str], NamedChunks]] = {
    ".gz": _decompressed(gzip.open),
    ".bz2": _decompressed(bz2.open),
    ".xz": _decompressed(lzma.open),
    ".zst": _decompressed(_open_zst),
    ".zip": _read_zip,
    ".tar": _read_tar,
    ".tgz": _read_tar,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}


def documents_of_rows(
    rows: Iterable[Any], name: str, column: str
) -> Iterator[tuple[str, bytes]]:
    """Texts of a data set of another package, as names and bytes.

    Args:
        rows: str, bytes, or dicts of columns (also with tensors for values),
            as Hugging Face `datasets` and `tensorflow-datasets` give them.
        name: what the data set is called.
        column: column that holds the text.
    """
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            if column not in row:
                raise ValueError(
                    f"The column must be one of {', '.join(map(str, row))}. "
                    f"Received: {column!r}. Choose another text_column."
                )
            row = row[column]
        row = row.numpy() if hasattr(row, "numpy") else row
        if row is None:
            continue
        try:
            yield f"{name}:{number}", _utf8(row)
        except TypeError as error:
            raise TypeError(
                "Rows must be texts, or dicts with a column of text. "
                f"Received: {error}. Choose another text_column."
            ) from error
