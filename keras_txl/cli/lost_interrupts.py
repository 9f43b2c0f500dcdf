"""Ctrl-C that cannot be lost. Imports nothing heavy."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_received = threading.Event()


@contextmanager
def remembered_interrupts() -> Iterator[None]:
    """Within, a Ctrl-C that came is known to `raise_lost_interrupt`.

    Python handles a signal in whatever the main thread runs, and some places
    drop the exception: NumPy while it asks a JAX array for its buffer (which
    waits there for the step that computes it), finalizers, and callbacks of
    the garbage collector.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if (
        not is_main_thread
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    report = sys.unraisablehook

    def report_others(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            report(lost)

    sys.unraisablehook = report_others
    signal.signal(signal.SIGINT, _remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = report
        _received.clear()


def raise_lost_interrupt() -> None:
    """Raise the `KeyboardInterrupt` that came before, if work went on.

    Called where long work reports its progress: whoever gets there after a
    Ctrl-C has not heard of it.
    """
    if _received.is_set():
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    _received.set()
    raise KeyboardInterrupt
