"""The charts and the text of a report as PNG files."""

import warnings
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.report.charts import BarChart
from keras_txl.report.charts import Chart
from keras_txl.report.charts import Grid
from keras_txl.report.charts import LineChart
from keras_txl.report.coloured_text import full_shades
from keras_txl.report.shown_text import Piece
from keras_txl.report.shown_text import printable

COLOURS = ("#0b62a8", "#d55e00", "#00856a", "#b0579a", "#6b4fb3", "#8a6d00")
BLUE, ORANGE, WHITE = np.array([0, 101, 189]), np.array([222, 106, 16]), 255
COLUMNS, LINES = 80, 40
"""Characters of the text that are drawn: what is readable at a glance."""

LETTER = 7.0  # size of the text's type in points
ADVANCE, LINE = 0.602 * LETTER / 72, 1.5 * LETTER / 72  # inches a character


def draw_pictures(
    folder: Path, charts: Sequence[Chart], pieces: Sequence[Piece]
) -> bool:
    """Draw each chart, and the text coloured by what memory changed.

    Args:
        folder: where to; a file is called as its chart, the text `text.png`.
        charts: what to draw.
        pieces: the text.

    Returns:
        False if matplotlib is not installed; nothing is drawn then.
    """
    try:
        # Without pyplot: no window, no global state.
        from matplotlib.figure import Figure
    except ImportError:
        return False
    for chart in charts:
        rows = len(chart.rows) if isinstance(chart, Grid) else 0
        size = (7, max(4.0, 1.5 + 0.16 * rows))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        draw: Callable[[Any, Chart], None] = _DRAWERS[type(chart)]
        draw(axes, chart)
        axes.set_title(chart.title)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        figure.savefig(folder / f"{chart.name}.png", dpi=120)
    figure = Figure(
        figsize=(COLUMNS * ADVANCE + 0.2, LINES * LINE + 0.4), facecolor="white"
    )
    _draw_text(figure, pieces)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of its font
        figure.savefig(folder / "text.png", dpi=150)
    return True


def _draw_lines(axes: Any, chart: LineChart) -> None:
    last = max(len(chart.lines) - 1, 1)
    for number, line in enumerate(chart.lines):
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)]}
        if chart.in_order:
            style = {"color": COLOURS[0], "alpha": 0.35 + 0.65 * number / last}
        axes.plot(line.x, line.y, label=line.label, marker=".", **style)
        if chart.show_values:
            for x, y in zip(line.x, line.y, strict=True):
                axes.annotate(
                    f"{y:.3f}",
                    (x, y),
                    xytext=(0, 6),
                    textcoords="offset points",
                    ha="center",
                )
    axes.margins(y=0.15)
    axes.grid(alpha=0.3)
    if len(chart.lines) > 1:
        axes.legend()


def _draw_bars(axes: Any, chart: BarChart) -> None:
    width = 0.8 / len(chart.series)
    places = np.arange(len(chart.groups))
    for number, (label, values) in enumerate(chart.series.items()):
        axes.bar(
            places + (number + 0.5) * width - 0.4,
            values,
            0.92 * width,
            label=label,
            color=COLOURS[number % len(COLOURS)],
        )
    axes.set_xticks(places, chart.groups)
    axes.legend()


def _draw_grid(axes: Any, chart: Grid) -> None:
    values = np.asarray(chart.values)
    image = axes.imshow(
        values, cmap="Blues", vmin=0, vmax=chart.highest, aspect="auto"
    )
    axes.set_xticks(range(len(chart.columns)), chart.columns, rotation=45)
    axes.set_yticks(range(len(chart.rows)), chart.rows)
    if values.size <= 200:
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value > 0.6 * chart.highest else "black"
            told = format(value, chart.number)
            axes.text(column, row, told, color=colour, ha="center", va="center")
    axes.figure.colorbar(image)


def _draw_text(figure: Any, pieces: Sequence[Piece]) -> None:
    """Lines of letters over cells of colour."""
    letters, changes = _typeset(pieces)
    full = full_shades(pieces)[1]
    strength = np.clip(np.abs(changes) / full, 0, 1)[:, :, None] * 0.62
    colour = np.where(changes[:, :, None] < 0, BLUE, ORANGE)
    cells = WHITE + strength * (colour - WHITE)
    height = 1 - 0.3 / figure.get_figheight()
    axes = figure.add_axes((0.01, 0.005, 0.98, height - 0.01))
    axes.imshow(
        cells.astype("uint8"),
        aspect="auto",
        extent=(0, COLUMNS, LINES, 0),
        interpolation="nearest",
    )
    axes.set_axis_off()
    for number, line in enumerate(letters):
        for place, letter in enumerate(line):
            if letter.strip():
                axes.text(
                    place + 0.5,
                    number + 0.75,
                    letter,
                    family="monospace",
                    size=LETTER,
                    ha="center",
                    parse_math=False,
                )
    figure.text(
        0.01,
        height + 0.01,
        f"Full blue: memory saves {full:.1f} bits or more. "
        "Full orange: it costs as much.",
        size=9,
        va="bottom",
    )


def _typeset(pieces: Sequence[Piece]) -> tuple[list[list[str]], np.ndarray]:
    """Letters by line and column, and the change in bits under each."""
    letters = [[" "] * COLUMNS for _ in range(LINES)]
    changes = np.zeros((LINES, COLUMNS))
    line = column = 0
    for piece in pieces:
        change = 0.0
        if piece.with_memory is not None and piece.without_memory is not None:
            change = piece.with_memory - piece.without_memory
        for letter in printable(piece.text).expandtabs(4):
            if column == COLUMNS:
                line, column = line + 1, 0
            if line == LINES:
                return letters, changes
            changes[line, column] = change
            if letter == "\n":
                line, column = line + 1, 0
                continue
            letters[line][column] = letter
            column += 1
    return letters, changes


_DRAWERS: dict[type[Chart], Callable[..., None]] = {
    LineChart: _draw_lines,
    BarChart: _draw_bars,
    Grid: _draw_grid,
}
