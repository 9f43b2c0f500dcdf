"""The quickstart's report: Markdown, and plots where matplotlib is there."""

import math
import platform
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_txl.cli.memory_table import MemoryTable
from keras_txl.report.shown_text import printable

NO_PLOTS = (
    "There are no plots: they need the package matplotlib. Install it with: "
    "pip install 'keras-txl[plots]'"
)

LOSS_PLOT = "loss.png"
MEMORY_PLOT = "memory.png"
BLUE, ORANGE, GREY = "#4477aa", "#ee7733", "#888888"


def write_report(
    folder: Path,
    facts: Mapping[str, str],
    table: MemoryTable,
    history: Sequence[Mapping[str, Any]],
    sample: str,
    reload_sentence: str,
) -> bool:
    """Write `report.md` and its plots.

    Args:
        folder: where to.
        facts: what was run, by name.
        table: the held-out evaluation.
        history: rows of `TrainingHistory`.
        sample: prompt and continuation.
        reload_sentence: what loading the saved model showed.

    Returns:
        Whether plots could be drawn.
    """
    plotted = draw_plots(folder, table, history)
    loss = f"![Loss while training]({LOSS_PLOT})" if plotted else NO_PLOTS
    memory = f"![What memory buys]({MEMORY_PLOT})" if plotted else NO_PLOTS
    lines = [
        "# Quickstart report",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "## Training",
        "",
        loss,
        "",
        *_history_lines(history),
        "",
        *_memory_lines(table),
        "",
        memory,
        "",
        "## Sample",
        "",
        "The prompt is held-out text; it ends where `sample.txt` says so.",
        "",
        *(f"    {line}" for line in printable(sample).splitlines()),
        "",
        "## Saved model",
        "",
        reload_sentence,
        "",
        *_usage_lines(table.segment_length),
    ]
    (folder / "report.md").write_text("\n".join(lines), encoding="utf-8")
    return plotted


def _memory_lines(table: MemoryTable) -> list[str]:
    return [
        "## What memory buys",
        "",
        f"Bits per byte on {table.num_bytes:,} held-out bytes in "
        f"{table.documents_told()}, read in "
        f"segments of {table.segment_length}. The model was not trained on "
        "them. Only the memory differs between the rows of the model. In "
        '"zeroed" the memory has its length and no contents.',
        "",
        "| setting | bits per byte |",
        "|---|---:|",
        *(f"| {label} | {bits:.4f} |" for label, bits in table.rows()),
        "",
        table.verdict(),
        "",
        "`xz` and `bzip2` got the same bytes as one file at their highest "
        "setting. They start knowing nothing, while the model has read its "
        "training text; they code the first byte of each document, which the "
        "model is given. The size of the model is not counted.",
    ]


def _usage_lines(segment_length: int) -> list[str]:
    """How to use the model from the folder of the report."""
    return [
        "```bash",
        "keras-txl inspect .",
        "keras-txl evaluate . my_text.txt --memory-length 0 "
        f"--memory-length {segment_length}",
        'keras-txl generate . --prompt "import "',
        "```",
        "",
        "```python",
        "import keras_txl",
        "",
        'lm = keras_txl.models.TransformerXLCausalLM.from_preset("model")',
        "```",
        "",
    ]


def versions() -> str:
    """What the numbers were made with."""
    import keras

    import keras_txl

    return (
        f"keras_txl {keras_txl.__version__}, Keras {keras.__version__} on "
        f"{keras.backend.backend()}, Python {platform.python_version()}"
    )


def draw_plots(
    folder: Path, table: MemoryTable, history: Sequence[Mapping[str, Any]]
) -> bool:
    """Draw the loss curve and the memory table as PNG files.

    Args:
        folder: where to.
        table: the held-out evaluation.
        history: rows of `TrainingHistory`.

    Returns:
        False if matplotlib is not installed.
    """
    try:
        # Without pyplot: no window, no global state.
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7, 4), layout="constrained")
    _draw_loss(figure.add_subplot(), history)
    figure.savefig(folder / LOSS_PLOT, dpi=120)
    figure = Figure(figsize=(7, 4), layout="constrained")
    _draw_memory(figure.add_subplot(), table)
    figure.savefig(folder / MEMORY_PLOT, dpi=120)
    return True


def _draw_loss(axes: Any, history: Sequence[Mapping[str, Any]]) -> None:
    for name, label, style in (
        ("loss", "training", {"color": BLUE}),
        ("val_loss", "validation", {"color": ORANGE, "marker": "o"}),
    ):
        points = [(r["step"], r[name]) for r in history if r[name] is not None]
        if points:
            steps, losses = zip(*points, strict=True)
            bits = [loss / math.log(2) for loss in losses]
            axes.plot(steps, bits, label=label, **style)
    axes.set_xlabel("step")
    axes.set_ylabel("bits per token")
    axes.set_title("Loss while training")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()


def _draw_memory(axes: Any, table: MemoryTable) -> None:
    rows = table.rows()[::-1]
    labels = [label for label, _ in rows]
    bits = [value for _, value in rows]
    colors = [
        GREY
        if label in table.compressors
        else ORANGE
        if label in ("memory 0", "memory 1x, zeroed")
        else BLUE
        for label in labels
    ]
    bars = axes.barh(labels, bits, color=colors)
    axes.bar_label(bars, fmt="%.3f", padding=3)
    axes.set_xlim(0, 1.12 * max(bits))
    axes.set_xlabel("bits per byte on held-out text (shorter is better)")
    axes.set_title("What memory buys")


def _history_lines(history: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| step | training | validation |", "|---:|---:|---:|"]
    for row in history:
        if row["val_loss"] is not None:
            lines.append(
                f"| {int(row['step'])} | {row['loss'] / math.log(2):.4f} | "
                f"{row['val_loss'] / math.log(2):.4f} |"
            )
    return [*lines, "", "Bits per token; every slice is in `history.csv`."]
