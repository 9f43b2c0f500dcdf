"""The charts of a report, made of its measurements."""

import math

import numpy as np

from keras_txl.report.charts import BarChart
from keras_txl.report.charts import Chart
from keras_txl.report.charts import Grid
from keras_txl.report.charts import Line
from keras_txl.report.charts import LineChart
from keras_txl.report.measurements import ReadingMeasurements

MOST_POINTS = 32
"""Points of a line; what is finer is averaged or left out."""

TERMS = {
    "a": "a: content",
    "b": "b: content and distance",
    "c": "c: any key's content",
    "d": "d: any distance",
}


def make_charts(found: ReadingMeasurements) -> list[Chart]:
    """The charts in the order in which they are shown.

    Args:
        found: the measurements.

    Returns:
        Charts; without those of the four terms and of W_kR where scores are
        not made of them.
    """
    charts = [
        _memory_curve(found),
        _positions(found),
        _attention(found),
        _heads(
            "entropy",
            "How widely each head looks",
            "As wide as an equal look at so many tokens, by the entropy of "
            "attention: 1 is a look at a single one.",
            np.exp(found.entropy),
            ".1f",
        ),
        _heads(
            "far",
            "Attention behind the segment",
            "Percent of a head's attention that goes "
            f"{found.segment_length} tokens back or more, which only memory "
            "reaches.",
            100 * found.attention[:, :, found.segment_length :].sum(axis=-1),
            ".0f",
        ),
        _terms(found),
        _relative_keys(found),
        _memory_trace(found, "norms", "Size of what memory holds"),
        _memory_trace(found, "drift", "Drift of memory"),
    ]
    return [chart for chart in charts if chart is not None]


def _memory_curve(found: ReadingMeasurements) -> Chart:
    bits = [result.bits_per_token for result in found.curve.values()]
    return LineChart(
        name="memory",
        title="What memory is worth",
        caption=f"The same {found.unit}s, read with memories of several "
        f"lengths; the other figures have {found.memory_length}.",
        x_label=f"memory in {found.unit}s",
        y_label=f"bits per {found.unit}",
        lines=[Line("loss", list(found.curve), bits)],
        show_values=True,
    )


def _positions(found: ReadingMeasurements) -> Chart:
    lines = []
    for length, losses in found.positions.items():
        place, bits = _averaged(losses.nats / math.log(2), losses.counts)
        label = f"memory {length}" if length else "no memory"
        lines.append(Line(label, place, bits))
    return LineChart(
        name="positions",
        title="Loss by place in the segment",
        caption="Without memory the first tokens of a segment see next to "
        "nothing before them: context fragmentation.",
        x_label=f"place in the segment, in {found.unit}s",
        y_label=f"bits per {found.unit}",
        lines=lines,
    )


def _averaged(
    values: np.ndarray, weights: np.ndarray
) -> tuple[list[float], list[float]]:
    """Places and means of at most `MOST_POINTS` stretches that hold some."""
    places = np.arange(len(values))
    x, y = [], []
    for part in np.array_split(places, min(len(places), MOST_POINTS)):
        own = part[weights[part] > 0]
        if own.size:
            x.append(float(own.mean()))
            y.append(float(np.average(values[own], weights=weights[own])))
    return x, y


def _attention(found: ReadingMeasurements) -> Chart:
    layers, heads, distances = found.attention.shape
    edges = [0, 1]
    while edges[-1] < distances:
        edges.append(min(2 * edges[-1], distances))
    shares = np.add.reduceat(found.attention, edges[:-1], axis=-1)
    columns = [
        str(first) if first == last - 1 else f"{first}\u2013{last - 1}"
        for first, last in zip(edges, edges[1:], strict=False)
    ]
    values = 100 * shares.reshape(layers * heads, -1)
    return Grid(
        name="attention",
        title="Attention by distance",
        caption="Percent of each head's attention, a row a head (layer.head),"
        " a column a range of distances, itself at 0.",
        x_label=f"distance back, in {found.unit}s",
        y_label="head",
        rows=_head_names(layers, heads),
        columns=columns,
        values=values.tolist(),
        number=".0f",
        highest=float(values.max()),
    )


def _head_names(layers: int, heads: int) -> list[str]:
    return [
        f"{layer}.{head}" for layer in range(layers) for head in range(heads)
    ]


def _heads(
    name: str,
    title: str,
    caption: str,
    values: np.ndarray,
    number: str,
) -> Chart:
    layers, heads = values.shape
    return Grid(
        name=name,
        title=title,
        caption=caption,
        x_label="head",
        y_label="layer",
        rows=[str(layer) for layer in range(layers)],
        columns=[str(head) for head in range(heads)],
        values=values.tolist(),
        number=number,
        highest=float(values.max()) or 1.0,
    )


def _terms(found: ReadingMeasurements) -> Chart | None:
    if found.terms is None:
        return None
    return BarChart(
        name="terms",
        title="The four terms of the scores",
        caption="How much each term differs between the keys that a query "
        "sees (standard deviation, mean of the heads): what moves attention.",
        x_label="layer",
        y_label="score",
        groups=[str(layer) for layer in range(len(found.entropy))],
        series={
            label: found.terms[name].mean(axis=1).tolist()
            for name, label in TERMS.items()
        },
    )


def _relative_keys(found: ReadingMeasurements) -> Chart | None:
    if found.relative_keys is None:
        return None
    waves = found.relative_keys.wavelengths  # (D / 2,)
    strengths = found.relative_keys.strengths  # (L, N, D / 2)
    octave = np.floor(np.log2(waves / waves[0]) + 1e-9)
    first = np.flatnonzero(np.diff(octave, prepend=-1))  # of each octave
    counts = np.diff(first, append=len(waves))
    means = np.add.reduceat(strengths**2, first, axis=-1) / counts
    layers, heads, _ = strengths.shape
    values = np.sqrt(means).reshape(layers * heads, -1)
    return Grid(
        name="relative_keys",
        title="The matrix W_kR, by wavelength",
        caption="How strongly each head (layer.head) reads the sines and "
        "cosines that tell it the distance: root mean square of their entries "
        "in W_kR, a column an octave of wavelengths. Short waves tell near "
        f"{found.unit}s apart; one much longer than "
        f"{found.segment_length + found.memory_length} {found.unit}s is all "
        "but the same everywhere.",
        x_label=f"wavelength, in {found.unit}s",
        y_label="head",
        rows=_head_names(layers, heads),
        columns=[_short(wave) for wave in waves[first]],
        values=values.tolist(),
        number=".2f",
        highest=float(values.max()) or 1.0,
    )


def _short(number: float) -> str:
    """Two digits of a number."""
    return f"{number:.0f}" if number < 1000 else f"{number / 1000:.0f}k"


def _memory_trace(found: ReadingMeasurements, name: str, title: str) -> Chart:
    values = getattr(found.trace, name)  # (C, L)
    calls = len(values)
    kept = np.unique(np.linspace(0, calls - 1, min(calls, 2 * MOST_POINTS)))
    kept = kept.astype(int)
    captions = {
        "norms": "Mean length of the remembered states. A growing one meets "
        "the model with what it has not been trained on.",
        "drift": "1 minus the cosine between the mean state after the first "
        "segment and now: 0 is the same on average.",
    }
    return LineChart(
        name=name,
        title=title,
        caption=captions[name],
        x_label=f"{found.unit}s read",
        y_label={"norms": "norm", "drift": "1 \u2212 cosine"}[name],
        lines=[
            Line(
                f"layer {layer}",
                ((kept + 1) * found.segment_length).tolist(),
                values[kept, layer].tolist(),
            )
            for layer in range(values.shape[1])
        ],
        in_order=True,
    )
