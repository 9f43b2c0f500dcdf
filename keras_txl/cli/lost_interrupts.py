"""Ctrl-C that cannot be lost. Imports nothing heavy."""

import _thread
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS_TO_REPEAT = 0.05  # until the callback that lost the signal is over


@contextmanager
def repeat_lost_interrupts() -> Iterator[None]:
    """Within, a `KeyboardInterrupt` that nothing could catch comes again.

    Python handles a signal between any two instructions of the main thread,
    also inside a finalizer or a callback of the garbage collector (JAX has
    one). An exception there is reported and dropped, and Ctrl-C seems to do
    nothing.
    """
    report = sys.unraisablehook

    def repeat(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            report(lost)
            return
        threading.Timer(SECONDS_TO_REPEAT, _thread.interrupt_main).start()

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = report
