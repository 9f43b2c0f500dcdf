"""Tables and plots of `run.py`, made of its results file."""

import re
from pathlib import Path
from typing import Any

from speed_configs import flops

WORK = "the work, O(T + M) a token, at the rate of a product"
TABLES = re.compile(r"(<!-- tables begin -->\n).*?(<!-- tables end -->)", re.S)
UNITS = {"train": "training", "eval": "evaluation", "generate": "generation"}


def write_report(report: dict[str, Any], document: Path, images: Path) -> None:
    """Put the tables between the marks of a document, and draw the plots.

    Args:
        report: what `run.py` has measured.
        document: Markdown with the two marks; left alone if it is not there.
        images: folder of the plots.
    """
    if document.exists():
        text = document.read_text()
        tables = tables_of(report)
        text = TABLES.sub(lambda found: found[1] + tables + found[2], text)
        temporary = document.with_suffix(".part")
        temporary.write_text(text)
        temporary.replace(document)
    if any("axis" in cell for cell in report["cells"]):
        draw_sweeps(report, images)


def tables_of(report: dict[str, Any]) -> str:
    """Markdown of all cells: a table each, the sweeps in one."""
    if not report["cells"]:
        return ""
    versions = report["versions"]
    lines = [
        f"{report['cores']} cores, {report['processor']}; devices "
        f"{', '.join(report['devices'])}. Keras {versions['keras']}, "
        f"TensorFlow {versions['tensorflow']}.",
        "",
    ]
    cells = [cell for cell in report["cells"] if "axis" not in cell]
    modes = list(UNITS)
    for cell in sorted(
        cells, key=lambda c: (c["name"], modes.index(c["mode"]))
    ):
        lines += cell_table(cell)
    sweeps = [cell for cell in report["cells"] if "axis" in cell]
    if sweeps:
        lines += ["### Sweeps", "", *sweep_table(sweeps)]
    return "\n".join(lines)


def cell_table(cell: dict[str, Any]) -> list[str]:
    """One configuration and mode, the fastest first."""
    rows = [row for row in cell["rows"] if "tokens_per_s" in row]
    rows.sort(key=lambda row: -row["tokens_per_s"])
    lines = [
        f"### {title_of(cell)}",
        "",
        "| | tokens/s | slowest to fastest burst | of the product | "
        "peak MB | first step s |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        steps = [burst["step"] for burst in row["bursts"]]
        low, high = (row["tokens_per_step"] / f(steps) for f in (max, min))
        share = row.get("share_of_product")
        # A peer tells the time of building and all its first steps.
        first = row.get("compile_s", row.get("warm_s"))
        name = row["name"]
        if name.startswith("keras_txl"):
            name = f"**{name}**"
        lines.append(
            f"| {name} | {number(row['tokens_per_s'])} | "
            f"{number(low)} to {number(high)} | "
            f"{'' if share is None else f'{share:.0%}'} | "
            f"{row.get('peak_rss_mb') or 0:.0f} | {first} |"
        )
    bounds = ", ".join(
        f"{row['name'].removeprefix('product_')} {row['gflops']:.0f}"
        for row in cell["rows"]
        if "gflops" in row
    )
    lines += ["", f"Product of two 2048 x 2048 matrices, GFLOP/s: {bounds}."]
    lines += [
        f"{row['name']} failed: {row['error']}"
        for row in cell["rows"]
        if "error" in row
    ]
    return [*lines, ""]


def title_of(cell: dict[str, Any]) -> str:
    """Configuration, mode, and the policy if it is not the usual one."""
    dtype = cell["config"].get("dtype")
    words = [cell["name"], UNITS[cell["mode"]], *([dtype] if dtype else [])]
    return ", ".join(words)


def sweep_table(cells: list[dict[str, Any]]) -> list[str]:
    """Tokens a second and microseconds a token of ours, along each axis."""
    lines = [
        "| | | tokens/s | microseconds a token | of the product |",
        "|---|---|---|---|---|",
    ]
    for cell in cells:
        for row in cell["rows"]:
            if "tokens_per_s" in row:
                rate = row["tokens_per_s"]
                lines.append(
                    f"| {cell['name']}, {UNITS[cell['mode']]} | {row['name']} "
                    f"| {number(rate)} | {1e6 / rate:.1f} | "
                    f"{row['share_of_product']:.0%} |"
                )
    return [*lines, ""]


def draw_sweeps(report: dict[str, Any], images: Path) -> None:
    """Cost of a token against each axis, one plot for each."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    axes = {cell["axis"] for cell in report["cells"] if "axis" in cell}
    for axis in sorted(axes):
        figure, plot = pyplot.subplots(figsize=(5, 3.2), layout="tight")
        lines: dict[str, list[tuple[float, float]]] = {}
        for cell in report["cells"]:
            if cell.get("axis") != axis:
                continue
            for name, cost in costs_of(cell).items():
                lines.setdefault(name, []).append((cell["value"], cost))
        for name, points in lines.items():
            style = "k--" if name == WORK else "o-"
            plot.plot(*zip(*sorted(points), strict=True), style, label=name)
        plot.set(xlabel=axis, ylabel="microseconds a token")
        plot.set_ylim(bottom=0)
        plot.legend(fontsize=7)
        images.mkdir(parents=True, exist_ok=True)
        figure.savefig(
            images / f"performance-{axis}.svg", metadata={"Date": ""}
        )
        pyplot.close(figure)


def costs_of(cell: dict[str, Any]) -> dict[str, float]:
    """Microseconds a token of each implementation, and of the bare work."""
    tokens = cell["config"]["batch"] * cell["config"]["tgt_len"]
    rate = max(row.get("gflops", 0) for row in cell["rows"]) * 1e9
    costs = {
        row["name"]: 1e6 / row["tokens_per_s"]
        for row in cell["rows"]
        if "tokens_per_s" in row
    }
    if rate:
        work = flops(cell["config"], cell["mode"])
        costs[WORK] = 1e6 * work / tokens / rate
    return costs


def number(value: float) -> str:
    """Three or more digits, with commas."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
