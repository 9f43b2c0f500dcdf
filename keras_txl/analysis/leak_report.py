"""The verdicts of `check_isolation`, as data and as a table."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LeakCheck:
    """One line of a `LeakReport`.

    Args:
        memory: which memory was in use: `"value"`, `"eval"` or `"train"`.
        change: what was changed.
        difference: by how much a loss (in nats) or a gradient moved: the
            largest move where none may happen, the smallest of all places
            where each must show.
        control: bool. Whether the change must show.
        threshold: what a control must exceed; else the difference must be 0.
        place: where that difference was found.
    """

    memory: str
    change: str
    difference: float
    control: bool = False
    threshold: float = 0.0
    place: str = ""

    @property
    def passed(self) -> bool:
        """Whether the difference is what it must be."""
        if self.control:
            return self.difference > self.threshold
        return self.difference == 0.0

    @property
    def required(self) -> str:
        """What the difference must be."""
        return f"> {self.threshold:g}" if self.control else "0"


@dataclass(frozen=True)
class LeakReport:
    """All checks of `check_isolation`; `print` shows them as a table.

    Args:
        checks: tuple of `LeakCheck`.
    """

    checks: tuple[LeakCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.failures

    @property
    def failures(self) -> tuple[LeakCheck, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        head = ("memory", "change", "moves by", "must be", "", "at")
        rows = [head] + [
            (
                check.memory,
                check.change,
                f"{check.difference:.3g}",
                check.required,
                "ok" if check.passed else "LEAKS",
                check.place,
            )
            for check in self.checks
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width)
                for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)
