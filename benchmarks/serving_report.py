"""The table of `bench_serving.py`, made of its results file."""

import re
import statistics
from pathlib import Path
from typing import Any

TABLE = re.compile(r"(<!-- load begin -->\n).*?(<!-- load end -->)", re.S)


def write_table(report: dict[str, Any], document: Path) -> None:
    """Put the table between the marks of a document.

    Args:
        report: what `bench_serving.py` has measured.
        document: Markdown with the two marks.
    """
    text, table = document.read_text(), table_of(report)
    document.write_text(TABLE.sub(lambda m: m[1] + table + m[2], text))


def table_of(report: dict[str, Any]) -> str:
    """Markdown: a row for each server; its rate, p50 and p99 by load."""
    cells = {(one["server"], one["sessions"]): one for one in report["cells"]}
    servers = list(dict.fromkeys(one["server"] for one in report["cells"]))
    loads = sorted({sessions for _, sessions in cells})
    heads = [f" {n} session{'s' * (n > 1)} |" for n in loads]
    lines = ["| server |" + "".join(heads)]
    lines.append("|---|" + "---|" * len(loads))
    for name in servers:
        told = [figures(cells.get((name, number))) for number in loads]
        lines.append(f"| `{name}` | " + " | ".join(told) + " |")
    return "\n".join(lines) + "\n"


def figures(one: dict[str, Any] | None) -> str:
    """Segments a second, and the latencies p50 and p99."""
    if one is None:
        return ""
    middle, last = latencies(one)
    return f"{one['segments_per_second']:.0f}, {middle:.0f} / {last:.0f} ms"


def latencies(one: dict[str, Any]) -> tuple[float, float]:
    """p50 and p99 in ms."""
    quantiles = statistics.quantiles(one["samples"], n=100, method="inclusive")
    return 1e3 * quantiles[49], 1e3 * quantiles[98]
