"""Charts stand where their numbers say."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from keras_txl.analysis import RelativeKeys
from keras_txl.report.charts import BarChart
from keras_txl.report.charts import Grid
from keras_txl.report.charts import Line
from keras_txl.report.charts import LineChart
from keras_txl.report.charts import ticks
from keras_txl.report.figures import make_charts
from keras_txl.report.svg import draw_svg

pytestmark = pytest.mark.backend("tensorflow")  # no tensors

TOLD = {
    "name": "one",
    "title": "A <title>",
    "caption": "",
    "x_label": "along",
    "y_label": "up",
}


def drawn(chart):
    return ElementTree.fromstring(draw_svg(chart))


def places_of_ticks(root, axis, end):
    """From the number at each tick of an axis to its place."""
    return {
        float(text.text): float(text.get(axis))
        for text in root.iter("text")
        if text.get("class") == end
    }


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (2.31, 2.47), (0, 8192), (-3, 0.2), (5, 5)]
)
def test_ticks_are_round_and_cover(low, high):
    found = ticks(low, high)
    assert found[0] <= low and high <= found[-1]
    assert 2 <= len(found) <= 8
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0])
    assert re.fullmatch(r"[125]e[+-]\d+", f"{steps[0]:.0e}")


def test_points_of_a_line_stand_between_their_ticks():
    line = Line("l", [0.0, 50.0, 100.0, 100.0], [2.0, float("nan"), 4.0, 1.5])
    root = drawn(LineChart(**TOLD, lines=[line]))
    along = places_of_ticks(root, "x", "tick")
    up = places_of_ticks(root, "y", "tick end")
    circles = [
        (float(c.get("cx")), float(c.get("cy"))) for c in root.iter("circle")
    ]
    assert len(circles) == 3  # none where there is no value
    _, _, width, height = map(float, root.get("viewBox").split())
    for x, y in circles:
        assert 0 < x < width and 0 < y < height
    assert circles[0] == pytest.approx((along[0], up[2] - 3.5), abs=0.11)
    assert circles[1] == pytest.approx((along[100], up[4] - 3.5), abs=0.11)


@pytest.mark.parametrize("value", [2.2e-16, -1.1e-16, 0.0, 5.0])
def test_a_single_value_has_an_axis(value):
    # The drift of a text of one segment: nothing, but for rounding.
    chart = LineChart(**TOLD, lines=[Line("l", [8.0], [value])])
    up = places_of_ticks(drawn(chart), "y", "tick end")
    assert len(up) >= 2 and min(up) <= value + 1e-9 and max(up) >= value


def test_bars_are_as_high_as_their_values():
    root = drawn(
        BarChart(**TOLD, groups=["0", "1"], series={"a": [1, 2], "b": [4, 0]})
    )
    heights = [float(rect.get("height")) for rect in root.iter("rect")]
    assert heights[1] == pytest.approx(4 * heights[0], abs=0.3)
    assert heights[2] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[3] == 0


def test_cells_are_shaded_by_value_and_told():
    grid = Grid(
        **TOLD,
        rows=["r<", "s"],
        columns=["1", "2\u20133"],
        values=[[0, 2], [1, 4]],
        number=".1f",
        highest=2,
    )
    root = drawn(grid)
    shades = [float(rect.get("fill-opacity")) for rect in root.iter("rect")]
    assert shades == [0.04, 0.9, 0.47, 0.9]
    titles = [title.text for title in root.iter("title")]
    assert titles[1] == "up r<, along 2\u20133: 2.0"


def test_distances_are_gathered_without_loss(found):
    chart = next(c for c in make_charts(found) if c.name == "attention")
    assert chart.columns == ["0", "1", "2\u20133", "4\u20137"]
    assert chart.rows == ["0.0", "0.1", "1.0", "1.1"]
    np.testing.assert_allclose(np.sum(chart.values, axis=1), 100)
    np.testing.assert_allclose(
        chart.values[3][2], 100 * found.attention[1, 1, 2:4].sum()
    )
    far = next(c for c in make_charts(found) if c.name == "far")
    np.testing.assert_allclose(
        far.values, 100 * found.attention[:, :, 4:].sum(-1)
    )


def test_wavelengths_of_an_octave_are_one_column(found):
    # Eight wide: 6, 63, 628 and 6,283 tokens, each in an octave of its own.
    chart = next(c for c in make_charts(found) if c.name == "relative_keys")
    assert chart.columns == ["6", "63", "628", "6k"]
    assert chart.rows == ["0.0", "0.1", "1.0", "1.1"]
    expected = found.relative_keys.strengths.reshape(4, 4)
    np.testing.assert_allclose(chart.values, expected)
    kernels = np.random.default_rng(1).normal(size=(1, 64, 1, 2))
    wide = dataclasses.replace(found, relative_keys=RelativeKeys(kernels, None))
    chart = next(c for c in make_charts(wide) if c.name == "relative_keys")
    # Three wavelengths of 32 lie below twice the shortest.
    entries = kernels[0, [0, 1, 2, 32, 33, 34], 0]
    assert chart.values[0][0] == pytest.approx(np.sqrt((entries**2).mean()))
    assert chart.columns[:2] == ["6", "15"]


def test_places_where_nothing_stood_are_left_out(found):
    chart = next(c for c in make_charts(found) if c.name == "positions")
    assert chart.lines[0].x == [0, 1, 3]
    np.testing.assert_allclose(
        chart.lines[0].y, np.array([2.0, 1.5, 1.0]) / np.log(2)
    )
