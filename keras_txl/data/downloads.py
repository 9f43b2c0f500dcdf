"""Files from the network: whole, checked, kept, and with a way out."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.error import URLError
from urllib.request import Request
from urllib.request import urlopen

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

    `keras.utils.get_file` begins a broken download anew; this goes on where it
    broke, if the server can do so. Nothing stands under the name of the file
    before it is whole and checked. Files that were put there by hand are
    checked as well.

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
        _check(path, known)
        return path
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{download.name}.partial"
    try:
        _receive(download.url, partial)
    except (URLError, HTTPException, ConnectionError, TimeoutError) as error:
        raise ConnectionError(
            "The file cannot be downloaded. Received: "
            f"{download.url} ({error}). Try again with a network, which goes "
            "on where this ended, or fetch the file by hand and put it at "
            f"{str(path)!r}."
        ) from error
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(
            error.errno,
            f"The download cannot be written ({error.strerror}). Received: "
            f"{download.url} for {str(folder)!r}, where "
            f"{shutil.disk_usage(folder).free / 1e6:,.0f} MB are free. Make "
            f"room, or set {CACHE_VARIABLE} to another folder",
        ) from error
    try:
        _check(partial, known, download)
    except ValueError:
        partial.unlink()
        raise
    if known is None:
        _record(path, _hash(partial, "sha256"))
    partial.replace(path)
    return path


def _receive(url: str, partial: Path) -> None:
    """Download to a file, behind what it holds already."""
    have = partial.stat().st_size if partial.is_file() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        response = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if have and error.code == 416:  # nothing lies behind it
            partial.unlink()
            return _receive(url, partial)
        raise
    with response:
        goes_on = have and response.status == 206
        left = response.headers.get("Content-Length")
        left = None if left is None else int(left)
        with open(partial, "ab" if goes_on else "wb") as file:
            while chunk := response.read(CHUNK_BYTES):
                file.write(chunk)
                left = None if left is None else left - len(chunk)
        if left:
            raise ConnectionError(f"it broke off {left:,} bytes before its end")


def _check(
    path: Path, known: str | None, download: Download | None = None
) -> None:
    """Raise unless a file has the hash that it must have."""
    if known is None:
        return
    found = _hash(path, "md5" if len(known) == 32 else "sha256")
    if found == known:
        return
    where = download.url if download else repr(str(path))
    way_out = (
        "Try again; if it stays so, the file at its source has changed."
        if download
        else "Remove it to download it anew."
    )
    raise ValueError(
        "The file must be the one that is known. Received: "
        f"{where} with hash {found} instead of {known}. {way_out}"
    )


def _hash(path: Path, algorithm: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _record_place(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _recorded(path: Path) -> str | None:
    place = _record_place(path)
    return place.read_text().strip() if place.is_file() else None


def _record(path: Path, found: str) -> None:
    place = _record_place(path)
    partial = place.with_name(f".{place.name}.partial")
    partial.write_text(found + "\n")
    partial.replace(place)
