"""Output folders: nothing overwritten unasked, nothing left half-written."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` whose contents move there on success.

    Entries of the same name are replaced, others stay. On failure or
    interruption the staged folder is removed and `folder` is as it was.

    Args:
        folder: where the contents shall end up.

    Yields:
        An empty folder to write to.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield stage
        # mkdtemp makes a private folder; results are for whoever may see the
        # folder around them.
        stage.chmod(0o777 & ~_umask())
        _move_into_place(stage, folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move_into_place(stage: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(stage, folder)
        return
    for entry in stage.iterdir():
        target = folder / entry.name
        if target.is_dir() and not target.is_symlink():
            old = stage / f".old.{entry.name}"
            os.replace(target, old)
        os.replace(entry, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
