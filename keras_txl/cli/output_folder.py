"""Output folders: nothing overwritten unasked."""

import os
from pathlib import Path


def check_output(folder: Path, overwrite: bool, way_out: str) -> None:
    """Refuse a folder that something stands in already.

    Args:
        folder: where results shall go.
        overwrite: whether earlier results may be replaced.
        way_out: end of the message, what to do instead.

    Raises:
        FileExistsError: if the path is a file, or the folder is not empty
            and `overwrite` was not given.
        PermissionError: if it may not be written.
    """
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(
            "--output must be a folder. Received: "
            f"{str(folder)!r}, which is a file. Choose another path."
        )
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(
            "--output must be a new or an empty folder. Received: "
            f"{str(folder)!r}, which holds files. {way_out}"
        )
    place = next(
        path for path in (folder, *folder.absolute().parents) if path.exists()
    )
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(
            "--output must be a folder that may be written. Received: "
            f"{str(folder)!r}; nothing can be written in {str(place)!r}. "
            "Choose another path."
        )
