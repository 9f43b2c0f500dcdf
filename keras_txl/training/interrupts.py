"""Signals that wait for the end of a training step."""

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """Holds the first SIGINT or SIGTERM back until it is asked for.

    A second signal is not held back, so a stuck step can still be broken.
    Outside the main thread, where Python allows no handlers, nothing happens.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def hold(self) -> None:
        """Begin to hold signals back."""
        self.received = None
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._previous:
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._remember)

    def release(self) -> None:
        """Put the handlers back that were there before."""
        for number, handler in self._previous.items():
            # None: a handler that Python did not set and cannot restore.
            signal.signal(number, handler or signal.SIG_DFL)
        self._previous = {}

    def deliver(self) -> None:
        """Let the signal that was held back take its ordinary course."""
        received, self.received = self.received, None
        self.release()
        if received is None:
            return
        handler = signal.getsignal(received)
        if callable(handler):
            # Called, not signalled: a signal may be handled inside a callback
            # of the garbage collector, where the exception would be lost.
            handler(received, None)
        else:
            signal.raise_signal(received)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.release()
