"""Ctrl-C where Python would lose it."""

import gc
import signal

import pytest

from keras_txl.cli.lost_interrupts import raise_lost_interrupt
from keras_txl.cli.lost_interrupts import remembered_interrupts
from keras_txl.cli.progress import progress_bar

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


class _InterruptedWhenFinalized:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def drop_an_interrupt() -> None:
    """As NumPy does while it waits for the buffer of a JAX array."""
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException:
        return
    raise AssertionError("must not be reached")


def lose_in_finalizer() -> None:
    finalized = _InterruptedWhenFinalized()
    del finalized


def lose_in_garbage_collector() -> None:
    def callback(phase: str, _: dict[str, int]) -> None:
        if phase == "stop":
            gc.callbacks.remove(callback)
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(callback)
    gc.collect()


LOSSES = [drop_an_interrupt, lose_in_finalizer, lose_in_garbage_collector]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_interrupt_is_raised_where_progress_is_reported(lose, capsys):
    with remembered_interrupts(), progress_bar("Working") as update:
        update(1, 3)
        lose()
        with pytest.raises(KeyboardInterrupt):
            update(2, 3)
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_that_was_heard_is_forgotten_afterwards():
    with pytest.raises(KeyboardInterrupt), remembered_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    raise_lost_interrupt()


def test_a_handler_of_the_caller_stays():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with remembered_interrupts():
            signal.raise_signal(signal.SIGINT)
            raise_lost_interrupt()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_lost_exceptions_are_only_reported(monkeypatch):
    seen = []
    monkeypatch.setattr("sys.unraisablehook", lambda lost: seen.append(lost))

    class Failing:
        def __del__(self) -> None:
            raise ValueError("as a test")

    with remembered_interrupts():
        failing = Failing()
        del failing
    assert [lost.exc_type for lost in seen] == [ValueError]
