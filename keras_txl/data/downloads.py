"""Files from the network: whole, checked, kept, and with a way out."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request
from urllib.request import urlopen

import keras

from keras_txl.data.disk_space import cannot_write
from keras_txl.whole_files import write_whole

CHUNK_BYTES = 2**20
TIMEOUT = 60.0  # seconds without an answer

CACHE_VARIABLE = "KERAS_HOME"


@dataclass(frozen=True)
class Download:
    """A file and where it comes from.

    Attributes:
        url: address.
        name: what it is called here.
        file_hash: SHA-256 or, told by its length, MD5. `None`: none is
            published. The SHA-256 of the first download is then written
            beside the file, and later ones must agree with it.
    """

    url: str
    name: str
    file_hash: str | None = None


def cache_folder() -> Path:
    """Where downloaded corpora are kept: `corpora` in Keras's own folder."""
    home = os.environ.get(CACHE_VARIABLE) or os.path.expanduser("~/.keras")
    return Path(home, "corpora")


def fetch(download: Download, folder: Path) -> Path:
    """The path of a file, downloaded if it is not there.

    `keras.utils.get_file` checks it and hands it out. It would throw a broken
    transfer away; so the bytes are brought to where it looks by one that goes
    on where it ended, if the server can do so (decision 0012). If they are the
    wrong ones, `get_file` downloads once more from the beginning. Nothing
    stands under the name of the file before it is whole and checked. Files
    that were put there by hand are checked as well.

    Args:
        download: what to fetch.
        folder: where it is kept.

    Returns:
        Its path.

    Raises:
        ConnectionError: if it cannot be fetched. The message says where to
            put the file by hand.
        ValueError: if it is not the file that it should be.
        OSError: if it cannot be written.
    """
    path = folder / download.name
    known = download.file_hash or _recorded(path)
    if path.is_file():
        _check(path, known)  # `get_file` would put another in its place
        return _by_keras(download.url, path, None)
    partial = folder / f".{download.name}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(partial):
            if not path.is_file():  # another process may have been here
                _receive(download.url, partial)
                _by_keras(download.url, partial, known)
                if known is None:
                    _record(path, _hash(partial, "sha256"))
                partial.replace(path)
    except ConnectionError as error:
        raise ConnectionError(
            "The file cannot be downloaded. Received: "
            f"{download.url} ({error}). Try again with a network, which goes "
            "on where this ended, or fetch the file by hand and put it at "
            f"{str(path)!r}."
        ) from error
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise cannot_write(
            error,
            f"The download of {download.url}",
            folder,
            f"Make room, or set {CACHE_VARIABLE} to another folder.",
        ) from error
    return _by_keras(download.url, path, None)


def _by_keras(url: str, path: Path, known: str | None) -> Path:
    """Keras finds a file in its cache, checks it and hands it out."""
    try:
        found: str = keras.utils.get_file(
            path.name,
            origin=url,
            file_hash=known,
            hash_algorithm=_algorithm(known),
            cache_subdir=str(path.parent.absolute()),
        )
    except ValueError as error:  # what it has downloaded is wrong as well
        wrong = _another_file(
            url,
            _hash(path, _algorithm(known)),
            known,
            "Try again; if it stays so, the file at its source has changed.",
        )
        path.unlink()
        raise wrong from error
    except OSError:
        raise
    except Exception as error:  # so it tells that there is no answer
        raise ConnectionError(str(error)) from error
    return Path(found)


@contextmanager
def _alone(partial: Path) -> Iterator[None]:
    """Let one process write a file; others wait for it, where they can."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(partial, "ab") as file:
        with suppress(OSError):  # not every network disk has locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if partial.is_file() and not partial.stat().st_size:
                partial.unlink()


@contextmanager
def _network() -> Iterator[None]:
    """Whatever the network makes Python raise is a `ConnectionError`."""
    try:
        yield
    except (OSError, HTTPException) as error:
        raise ConnectionError(str(error) or type(error).__name__) from error


def _receive(url: str, partial: Path) -> None:
    """Download to a file, behind what it holds already."""
    have = partial.stat().st_size if partial.is_file() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with _network():
        try:
            response = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
        except HTTPError as error:
            if not have or error.code != 416:
                raise
            # Nothing lies behind it: it is too long, or of another file.
            response = urlopen(url, timeout=TIMEOUT)
    with response:
        goes_on = have and response.status == 206
        have = have if goes_on else 0
        left = response.headers.get("Content-Length")
        left = None if left is None else int(left)
        size = None if left is None else have + left
        print(f"Downloading {url}", flush=True)
        progress = keras.utils.Progbar(size, unit_name="byte")
        with open(partial, "ab" if goes_on else "wb") as file:
            while chunk := _next_chunk(response):
                file.write(chunk)
                have += len(chunk)
                left = None if left is None else left - len(chunk)
                progress.update(have)
        if left:
            raise ConnectionError(f"it broke off {left:,} bytes before its end")


def _next_chunk(response: HTTPResponse) -> bytes:
    with _network():
        return response.read(CHUNK_BYTES)


def _check(path: Path, known: str | None) -> None:
    """Raise unless a file has the hash that it must have."""
    found = known and _hash(path, _algorithm(known))
    if found != known:
        way_out = "Remove it to download it anew."
        raise _another_file(repr(str(path)), found, known, way_out)


def _another_file(
    where: str, found: str | None, known: str | None, way_out: str
) -> ValueError:
    return ValueError(
        "The file must be the one that is known. Received: "
        f"{where} with hash {found} instead of {known}. {way_out}"
    )


def _algorithm(known: str | None) -> str:
    return "md5" if known is not None and len(known) == 32 else "sha256"


def _hash(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _record_place(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _recorded(path: Path) -> str | None:
    place = _record_place(path)
    return place.read_text().strip() if place.is_file() else None


def _record(path: Path, found: str) -> None:
    write_whole(_record_place(path), found + "\n")
