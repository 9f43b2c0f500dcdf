"""What goes to stderr while a verb works."""

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn
from rich.progress import Progress
from rich.progress import TaskProgressColumn
from rich.progress import TextColumn
from rich.progress import TimeElapsedColumn
from rich.progress import TimeRemainingColumn

from keras_txl.cli.lost_interrupts import raise_lost_interrupt


def say(text: str) -> None:
    """Write a line of news to stderr."""
    Console(stderr=True, highlight=False).print(text, markup=False)


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[..., None]]:
    """A bar with the time left, gone when the work is done.

    Args:
        description: what is being done.

    Yields:
        A function `update(done, total, note="")`. It raises a
        `KeyboardInterrupt` that the work did not hear of.
    """
    console = Console(stderr=True)
    if not console.is_terminal:  # a log file: one line, no bar
        say(f"{description} ...")
        yield lambda done, total, note="": raise_lost_interrupt()
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        transient=True,
    )
    task = bar.add_task(description, total=None, note="")

    def update(done: int, total: int, note: str = "") -> None:
        raise_lost_interrupt()
        bar.update(task, completed=done, total=total, note=note)

    with bar:
        yield update
