"""Folders that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` whose contents move there on success.

    Entries of the same name are replaced, others stay. On failure or
    interruption the staged folder is removed and everything is as it was.

    Args:
        folder: where the contents shall end up.

    Yields:
        An empty folder to write to.
    """
    folder = folder.absolute()
    made = _missing_parents(folder)
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
        for parent in made:
            if any(parent.iterdir()):
                break
            parent.rmdir()


def _missing_parents(folder: Path) -> list[Path]:
    """Folders that must be made to hold `folder`, the innermost first."""
    return [parent for parent in folder.parents if not parent.exists()]


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
