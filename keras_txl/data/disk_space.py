"""What to say when a disk does not take what is written."""

import shutil
from pathlib import Path


def cannot_write(
    error: OSError, what: str, folder: Path, way_out: str
) -> OSError:
    """The same error, with the room that is left and a way out.

    Args:
        error: what the system raised.
        what: what was written.
        folder: where, maybe not there yet.
        way_out: what to do.

    Returns:
        An error of the same number.
    """
    place = next(p for p in (folder, *folder.absolute().parents) if p.is_dir())
    free = shutil.disk_usage(place).free / 1e6
    return OSError(
        error.errno,
        f"{what} cannot be written ({error.strerror}). Received: "
        f"{str(folder)!r}, where {free:,.0f} MB are free. {way_out}",
    )
