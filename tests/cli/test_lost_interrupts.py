"""Ctrl-C where Python would lose it."""

import gc
import time

import pytest

from keras_txl.cli.lost_interrupts import repeat_lost_interrupts


class _InterruptedWhenFinalized:
    def __del__(self) -> None:
        raise KeyboardInterrupt


def wait() -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.01)


def test_an_interrupt_lost_in_a_finalizer_comes_again():
    with repeat_lost_interrupts(), pytest.raises(KeyboardInterrupt):
        finalized = _InterruptedWhenFinalized()
        del finalized
        wait()


def test_an_interrupt_lost_in_the_garbage_collector_comes_again():
    def callback(phase: str, _: dict[str, int]) -> None:
        if phase == "stop":
            gc.callbacks.remove(callback)
            raise KeyboardInterrupt

    with repeat_lost_interrupts(), pytest.raises(KeyboardInterrupt):
        gc.callbacks.append(callback)
        gc.collect()
        wait()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_lost_exceptions_are_only_reported(monkeypatch):
    seen = []
    monkeypatch.setattr("sys.unraisablehook", lambda lost: seen.append(lost))

    class Failing:
        def __del__(self) -> None:
            raise ValueError("as a test")

    with repeat_lost_interrupts():
        failing = Failing()
        del failing
        time.sleep(0.2)
    assert [lost.exc_type for lost in seen] == [ValueError]
