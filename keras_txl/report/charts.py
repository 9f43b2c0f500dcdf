"""Charts as data: what is drawn, apart from who draws it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

NOTHING = 1e-9
"""A smaller difference is one of rounding."""


@dataclass(frozen=True)
class Chart:
    """What every chart says.

    Args:
        name: word that files and anchors are called by.
        title: what the chart shows.
        caption: how to read it, in a sentence or two.
        x_label: what runs along, with its unit.
        y_label: what runs up, with its unit.
    """

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str


@dataclass(frozen=True)
class Line:
    """A line of a `LineChart`.

    Args:
        label: what it is.
        x: places along.
        y: values; NaN where there is none.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines over a number.

    Args:
        lines: the lines.
        in_order: whether they follow one another, such as layers, and are
            shades of one colour.
        show_values: whether each point has its value beside it.
    """

    lines: Sequence[Line] = ()
    in_order: bool = False
    show_values: bool = False


@dataclass(frozen=True)
class BarChart(Chart):
    """Bars side by side in groups.

    Args:
        groups: names of the groups.
        series: for each label the values, one a group.
    """

    groups: Sequence[str] = ()
    series: dict[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid(Chart):
    """Shaded cells.

    Args:
        rows: names of the rows, from above.
        columns: names of the columns.
        values: one list a row.
        number: how a value is told, as `format` takes it.
        highest: value of the full shade.
    """

    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    values: Sequence[Sequence[float]] = ()
    number: str = ".2f"
    highest: float = 1.0


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover a range.

    Args:
        low: least value.
        high: greatest value.
        count: about how many.

    Returns:
        At least two, the first at or below `low`, the last at or above
        `high`.
    """
    span = high - low
    if span < NOTHING:
        span = abs(high) if abs(high) > NOTHING else 1.0
    rough = span / max(count - 1, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, max(last, first + 1) + 1)]
