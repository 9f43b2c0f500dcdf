"""Text files that are there whole or not at all."""

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, in the place of an earlier one.

    Whoever reads the file meanwhile, or after this was interrupted, finds the
    earlier one or none.

    Args:
        path: of the file; its folder exists.
        text: what it shall hold. Line ends stay as they are.

    Raises:
        OSError: if the folder or the disk does not take it.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
