"""Charts as SVG within a page, which gives the colours (`page.css`).

Sizes are in user units: a page shows `WIDTH` of them on a phone's width.
"""

import math
from collections.abc import Callable
from collections.abc import Sequence
from html import escape

from keras_txl.report.charts import BarChart
from keras_txl.report.charts import Chart
from keras_txl.report.charts import Grid
from keras_txl.report.charts import LineChart
from keras_txl.report.charts import ticks

WIDTH, HEIGHT = 360.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 12.0, 12.0, 42.0
COLOURS = 6
CELL_WITH_NUMBER = 24.0


def draw_svg(chart: Chart) -> str:
    """A chart as an `svg` element.

    Args:
        chart: what to draw.

    Returns:
        XML, everything from the chart escaped.
    """
    draw: Callable[[Chart], tuple[float, list[str]]] = _DRAWERS[type(chart)]
    height, parts = draw(chart)
    middle = (TOP + height - BOTTOM) / 2
    told = [
        _text((LEFT + WIDTH - RIGHT) / 2, height - 6, chart.x_label, "name"),
        _text(12, middle, chart.y_label, "name", f"rotate(-90 12 {middle:g})"),
    ]
    return "".join(
        [
            f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
            f'aria-label="{escape(chart.title)}">',
            *parts,
            *told,
            "</svg>",
        ]
    )


def legend_labels(chart: Chart) -> list[tuple[str, str, float]]:
    """For each label of a chart its class and its shade, if it needs any.

    Args:
        chart: a chart.

    Returns:
        Label, class of the colour and opacity.
    """
    if isinstance(chart, LineChart) and len(chart.lines) > 1:
        return [
            (line.label, *_line_colour(chart, number))
            for number, line in enumerate(chart.lines)
        ]
    if isinstance(chart, BarChart):
        return [
            (label, f"c{number % COLOURS}", 1.0)
            for number, label in enumerate(chart.series)
        ]
    return []


def _draw_lines(chart: LineChart) -> tuple[float, list[str]]:
    x = _Scale(
        [value for line in chart.lines for value in line.x],
        LEFT,
        WIDTH - RIGHT,
        tight=True,
    )
    values = [y for line in chart.lines for y in line.y if math.isfinite(y)]
    y = _Scale(values, HEIGHT - BOTTOM, TOP + 8)
    parts = _axes(x, y)
    for number, line in enumerate(chart.lines):
        colour, shade = _line_colour(chart, number)
        points = [
            (place, value)
            for place, value in zip(line.x, line.y, strict=True)
            if math.isfinite(value)
        ]
        path = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in points)
        parts.append(
            f'<g class="line {colour}" opacity="{shade:.2f}">'
            f'<polyline points="{path}"/>'
        )
        for px, py in points:
            parts.append(
                f'<circle cx="{x(px):.1f}" cy="{y(py):.1f}" r="2.5"><title>'
                f"{escape(line.label)}, {px:g}: {py:.3f}</title></circle>"
            )
        parts.append("</g>")
        if chart.show_values:
            parts += _values_beside(points, x, y)
    return HEIGHT, parts


def _values_beside(
    points: Sequence[tuple[float, float]], x: "_Scale", y: "_Scale"
) -> list[str]:
    """The value of each point, where it does not run into the one before."""
    parts, free_from = [], -math.inf
    for px, py in points:
        place = min(max(x(px), LEFT + 15), WIDTH - RIGHT - 13)
        if place - 15 >= free_from:
            parts.append(_text(place, y(py) - 7, f"{py:.3f}", "value"))
            free_from = place + 15
    return parts


def _draw_bars(chart: BarChart) -> tuple[float, list[str]]:
    values = [value for own in chart.series.values() for value in own]
    y = _Scale([0.0, *values], HEIGHT - BOTTOM, TOP)
    parts = _rules(y)
    room = (WIDTH - RIGHT - LEFT) / len(chart.groups)
    bar = 0.8 * room / len(chart.series)
    for number, group in enumerate(chart.groups):
        begin = LEFT + number * room + 0.1 * room
        parts.append(
            _text(begin + 0.4 * room, HEIGHT - BOTTOM + 14, group, "tick")
        )
        for place, (label, own) in enumerate(chart.series.items()):
            top = y(own[number])
            parts.append(
                f'<rect class="c{place % COLOURS}" '
                f'x="{begin + place * bar:.1f}" y="{top:.1f}" '
                f'width="{0.92 * bar:.2f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}"><title>'
                f"{escape(label)}, {escape(chart.x_label)} {escape(group)}: "
                f"{own[number]:.3f}</title></rect>"
            )
    return HEIGHT, parts


def _draw_grid(chart: Grid) -> tuple[float, list[str]]:
    width = (WIDTH - RIGHT - LEFT) / len(chart.columns)
    cell = max(9.0, min(36.0, 150.0 / len(chart.rows)))
    height = TOP + cell * len(chart.rows) + BOTTOM
    with_numbers = width >= CELL_WITH_NUMBER and cell >= 11
    parts = []
    for number, row in enumerate(chart.rows):
        top = TOP + number * cell
        if cell >= 11 or number % 2 == 0:
            parts.append(_text(LEFT - 5, top + cell / 2 + 3.5, row, "tick end"))
        for place, value in enumerate(chart.values[number]):
            told = format(value, chart.number)
            shade = min(max(value / chart.highest, 0.0), 1.0)
            left = LEFT + place * width
            parts.append(
                f'<rect class="heat" x="{left:.1f}" y="{top:.1f}" '
                f'width="{width - 1:.1f}" height="{cell - 1:.1f}" '
                f'fill-opacity="{0.04 + 0.86 * shade:.2f}"><title>'
                f"{escape(chart.y_label)} {escape(row)}, "
                f"{escape(chart.x_label)} "
                f"{escape(chart.columns[place])}: {told}</title></rect>"
            )
            if with_numbers:
                style = "cell strong" if shade > 0.55 else "cell"
                parts.append(
                    _text(left + width / 2, top + cell / 2 + 3.5, told, style)
                )
    bottom = height - BOTTOM + 13
    step = math.ceil(len(chart.columns) / 18)
    for place, column in enumerate(chart.columns):
        # A range is told by its beginning: there is no room for more.
        told = column.partition("\u2013")[0]
        if place % step == 0:
            parts.append(_text(LEFT + (place + 0.5) * width, bottom, told))
    return height, parts


class _Scale:
    """From values to places, over round numbers."""

    def __init__(
        self,
        values: Sequence[float],
        first: float,
        last: float,
        tight: bool = False,
    ) -> None:
        low, high = min(values, default=0.0), max(values, default=1.0)
        self.ticks = ticks(low, high, 6 if tight else 5)
        self.low, self.high = self.ticks[0], self.ticks[-1]
        if tight and low < high:  # the ends of the data are those of the axis
            self.low, self.high = low, high
            self.ticks = [tick for tick in self.ticks if low <= tick <= high]
        self.first, self.last = first, last

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)


def _axes(x: _Scale, y: _Scale) -> list[str]:
    parts = _rules(y)
    for tick in x.ticks:
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 14, f"{tick:g}"))
    return parts


def _rules(y: _Scale) -> list[str]:
    parts = []
    for tick in y.ticks:
        place = y(tick)
        parts.append(
            f'<line class="rule" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" '
            f'y1="{place:.1f}" y2="{place:.1f}"/>'
        )
        parts.append(_text(LEFT - 5, place + 3.5, f"{tick:g}", "tick end"))
    return parts


def _line_colour(chart: LineChart, number: int) -> tuple[str, float]:
    if not chart.in_order:
        return f"c{number % COLOURS}", 1.0
    later = number / max(len(chart.lines) - 1, 1)
    return "c0", 0.35 + 0.65 * later


def _text(
    x: float, y: float, text: str, style: str = "tick", transform: str = ""
) -> str:
    turned = f' transform="{transform}"' if transform else ""
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{turned}>'
        f"{escape(text)}</text>"
    )


_DRAWERS: dict[type[Chart], Callable[..., tuple[float, list[str]]]] = {
    LineChart: _draw_lines,
    BarChart: _draw_bars,
    Grid: _draw_grid,
}
