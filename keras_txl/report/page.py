"""One page that needs nothing but itself: no script, no network."""

from collections.abc import Mapping
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from keras_txl.report.charts import Chart
from keras_txl.report.charts import Grid
from keras_txl.report.coloured_text import draw_text
from keras_txl.report.coloured_text import shade_rules
from keras_txl.report.measurements import ReadingMeasurements
from keras_txl.report.svg import draw_svg
from keras_txl.report.svg import legend_labels

# Nothing is loaded and nothing runs, whatever the text holds.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def make_page(
    title: str,
    facts: Mapping[str, Any],
    found: ReadingMeasurements,
    charts: Sequence[Chart],
) -> str:
    """The page of a report.

    Args:
        title: what was read by what.
        facts: facts about the model, by name; those that are mappings
            themselves are folded away.
        found: the measurements.
        charts: what `make_charts` made of them.

    Returns:
        HTML.
    """
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{style}{shade_rules()}
</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_headline(found)}
</header>
<main>
{_text_section(found)}
<div class="charts">
{"".join(map(_chart_section, charts))}
</div>
{_effective_context(found)}
{_memory_table(found)}
{_facts(facts)}
</main>
</body>
</html>
"""


def verdict(found: ReadingMeasurements) -> str:
    """What memory did to the loss, in a sentence.

    Args:
        found: the measurements.

    Returns:
        Text.
    """
    change = found.bits_with - found.bits_without
    if not change:
        return (
            f"Memory does not change the loss of {found.bits_with:.3f} bits "
            f"per {found.unit}."
        )
    did = "lowers" if change < 0 else "raises"
    told = (
        f"Memory {did} the loss from {found.bits_without:.3f} to "
        f"{found.bits_with:.3f} bits per {found.unit}"
    )
    interval = found.interval
    if interval is None:
        return f"{told} on this text."
    return (
        f"{told} (difference {change:+.3f}, 95 % interval "
        f"{interval.low:+.3f} to {interval.high:+.3f} over "
        f"{interval.num_documents} documents)."
    )


def _headline(found: ReadingMeasurements) -> str:
    change = found.bits_with / found.bits_without - 1
    cards = {
        "without memory": f"{found.bits_without:.3f} bits",
        f"with {found.memory_length} {found.unit}s": (
            f"{found.bits_with:.3f} bits"
        ),
        "change": f"{100 * change:+.1f} %".replace("-", "\u2212"),
        f"{found.unit}s that cost less": f"{100 * found.share_helped:.0f} %",
    }
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in cards.items()
    )
    evaluation = found.curve[found.memory_length]
    number = found.num_documents
    documents = f"{number:,} document{'' if number == 1 else 's'}"
    return (
        f"<p>{escape(verdict(found))}</p>"
        f'<dl class="facts">{shown}</dl>'
        f'<p class="quiet">{evaluation.num_targets:,} predicted {found.unit}s '
        f"in {documents}, read in segments of {found.segment_length}.</p>"
    )


def _text_section(found: ReadingMeasurements) -> str:
    return (
        '<section class="text" id="text"><h2>The text, by loss</h2>'
        '<p class="quiet">The beginning of what was read. Point at a piece or '
        "tap it for its numbers; &#8629; is the end of a line.</p>"
        f"{draw_text(found.pieces, found.unit)}</section>"
    )


def _chart_section(chart: Chart) -> str:
    labels = "".join(
        f'<li><i class="{colour}" style="opacity:{shade:.2f}"></i>'
        f"{escape(label)}</li>"
        for label, colour, shade in legend_labels(chart)
    )
    legend = f'<ul class="legend">{labels}</ul>' if labels else ""
    if isinstance(chart, Grid):
        highest = format(chart.highest, chart.number)
        legend = f'<div class="ramp">0 <i></i> {highest}</div>'
    return (
        f'<section id="{chart.name}"><h2>{escape(chart.title)}</h2>'
        f'<p class="quiet">{escape(chart.caption)}</p>'
        f"{draw_svg(chart)}{legend}</section>\n"
    )


def _effective_context(found: ReadingMeasurements) -> str:
    head = '<section id="recl"><h2>Relative effective context length</h2>'
    if not found.effective_context:
        return (
            f'{head}<p class="quiet">The text is too short: half of its '
            f"longest document must be {2 * found.effective_context_step} "
            f"{found.unit}s or more.</p></section>"
        )
    step = found.effective_context_step
    lengths = sorted(
        {n for own in found.effective_context.values() for n in own.gains}
    )
    names = ["hardest tokens", f"RECL in {found.unit}s"]
    names += [f"{length} \u2192 {length + step}" for length in lengths]
    rows = []
    for ratio, own in found.effective_context.items():
        length = int(own.lengths[0])
        more = "at least " if length == own.longest else ""
        row = [f"{100 * ratio:.0f} %", f"{more}{length}"]
        for context in lengths:
            gain = own.gains.get(context)
            row.append("" if gain is None else f"{100 * gain[0]:+.1f} %")
        rows.append(row)
    return (
        f'{head}<p class="quiet">The context behind which {step} more '
        f"{found.unit}s lower the perplexity by less than 1 %, each token read "
        "anew (paper, section 4.5 and Appendix C). To the right, what each "
        f"step lowers it by.</p>{_table(names, rows)}</section>"
    )


def _memory_table(found: ReadingMeasurements) -> str:
    rows = []
    for length, result in found.curve.items():
        change = result.bits_per_token - found.bits_without
        rows.append(
            [
                str(length),
                f"{result.bits_per_token:.4f}",
                f"{change:+.4f}" if length else "",
                f"{result.perplexity:,.3f}",
            ]
        )
    names = ["memory", f"bits per {found.unit}", "change", "perplexity"]
    lines = "".join(
        f'<p class="quiet"><code>{escape(result.protocol_line)}</code></p>'
        for length, result in found.curve.items()
        if length in (0, found.memory_length)
    )
    return (
        '<section id="protocol"><h2>Numbers and protocol</h2>'
        f"{_table(names, rows)}"
        '<p class="quiet">All that is needed to measure the same again, '
        f"without memory and with it:</p>{lines}</section>"
    )


def _facts(facts: Mapping[str, Any]) -> str:
    rows = []
    folded = ""
    for name, value in facts.items():
        name = name.replace("_", " ")
        if isinstance(value, Mapping):
            inner = [[key, str(entry)] for key, entry in value.items()]
            folded += (
                f"<details><summary>{escape(name)}</summary>"
                f"{_table((), inner)}</details>"
            )
        else:
            rows.append([name, f"{value:,}" if type(value) is int else value])
    return (
        '<section id="model"><h2>The model</h2>'
        f"{_table((), rows)}{folded}</section>"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def row(cells: Sequence[Any], kind: str) -> str:
        told = "".join(f"<{kind}>{escape(str(c))}</{kind}>" for c in cells)
        return f"<tr>{told}</tr>"

    head = f"<thead>{row(names, 'th')}</thead>" if names else ""
    body = "".join(row(cells, "td") for cells in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'
