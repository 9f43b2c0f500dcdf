"""What is compared in an ablation, and its table. Imports nothing heavy.

Reference:
    Dai et al. 2019 (arXiv 1901.02860), tables 6 and 7.
"""

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from statistics import mean
from statistics import stdev
from typing import Any

from keras_txl.cli.arguments import ModelSize

POSITIONS = {
    "relative_sinusoidal": "relative",
    "relative_clipped": "relative, clipped",
    "relative_learned": "relative, learned",
    "absolute_sinusoidal": "absolute",
    "absolute_learned": "absolute, learned",
    "none": "none",
}
"""Values of `position` of the backbone, and what the table calls them."""

DEFAULT_POSITIONS = ("relative_sinusoidal", "absolute_sinusoidal", "none")

COLUMNS = (
    "positions",
    "recurrence",
    "parameters",
    "steps",
    "as trained",
    "best",
    "attn len",
)


@dataclass(frozen=True)
class Variant:
    """A model of the comparison.

    Args:
        position: how positions are told apart, of `POSITIONS`.
        recurrent: whether it is trained with memory.
    """

    position: str
    recurrent: bool

    def size(self, size: ModelSize) -> ModelSize:
        """The sizes of the comparison with what this one changes."""
        memory_length = size.memory_length if self.recurrent else 0
        return replace(
            size, position=self.position, memory_length=memory_length
        )

    def run_name(self, seed: int) -> str:
        """Name of a run, for its file."""
        memory = "recurrent" if self.recurrent else "without_recurrence"
        return f"{self.position}-{memory}-seed_{seed}"


def variants(positions: Sequence[str]) -> list[Variant]:
    """With recurrence and without for each of the positions."""
    return [
        Variant(position, recurrent)
        for position in positions
        for recurrent in (True, False)
    ]


def evaluated_lengths(size: ModelSize) -> list[int]:
    """Memory lengths under which each model is evaluated, in tokens."""
    multiples = (n * size.segment_length for n in (0, 1, 2, 4))
    return sorted({*multiples, size.memory_length})


def figure(nats: float, unit: str) -> float:
    """Perplexity of tokens, bits of bytes and characters."""
    if unit == "token":
        return math.exp(min(nats, 700.0))
    return nats / math.log(2)


def figure_name(unit: str) -> str:
    """What `figure` gives."""
    return "perplexity" if unit == "token" else f"bits per {unit}"


def summarize(runs: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any]:
    """A row of the table from the runs of a variant.

    The attention length is memory and segment: as many tokens the last one of
    a segment may see. The best is the shortest that gives the figure of the
    lowest mean, to the four digits that are shown.

    Args:
        runs: results of the same variant, one a seed.
        unit: what a token is called.

    Returns:
        A dict, with a mean and a spread (standard deviation over seeds, `None`
        of a single one) for the length as trained and the best one.
    """
    first = runs[0]
    by_length = [
        (
            evaluation["attention_length"],
            [figure(run["evaluations"][i]["nats_per_token"], unit)
             for run in runs],
        )
        for i, evaluation in enumerate(first["evaluations"])
    ]  # fmt: skip
    lowest = round(min(mean(found) for _, found in by_length), 4)
    best_length, best = next(
        pair for pair in by_length if round(mean(pair[1]), 4) <= lowest
    )
    return {
        "position": first["position"],
        "recurrent": first["recurrent"],
        "parameters": first["parameters"],
        "steps": [run["steps"] for run in runs],
        "seeds": [run["seed"] for run in runs],
        "trained_attention_length": first["trained_attention_length"],
        "as_trained": _spread(
            dict(by_length)[first["trained_attention_length"]]
        ),
        "best": _spread(best),
        "best_attention_length": best_length,
        "by_attention_length": {
            str(length): _spread(found) for length, found in by_length
        },
    }


def _spread(found: Sequence[float]) -> dict[str, float | None]:
    deviation = stdev(found) if len(found) > 1 else None
    return {"mean": mean(found), "spread": deviation}


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row of the table as texts, in the order of `COLUMNS`."""
    steps = sorted(set(row["steps"]))
    told = f"{steps[0]:,}"
    if len(steps) > 1:
        told += f" to {steps[-1]:,}"
    return [
        POSITIONS[row["position"]],
        "yes" if row["recurrent"] else "no",
        f"{row['parameters']:,}",
        told,
        f"{_told(row['as_trained'])} ({row['trained_attention_length']})",
        _told(row["best"]),
        str(row["best_attention_length"]),
    ]


def _told(value: Mapping[str, Any]) -> str:
    if value["spread"] is None:
        return f"{value['mean']:.4f}"
    return f"{value['mean']:.4f} ± {value['spread']:.4f}"


def markdown(
    rows: Sequence[Mapping[str, Any]], facts: Mapping[str, str], unit: str
) -> str:
    """The comparison as a page.

    Args:
        rows: what `summarize` gave.
        facts: what was run, by name.
        unit: what a token is called.
    """
    lines = [
        "# Ablation",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        f"{figure_name(unit).capitalize()} on held-out text; lower is better. "
        '"As trained" has the attention length of training, in brackets; '
        '"best" the shortest one that gives the lowest figure, "attn len", in '
        "tokens of memory and segment. ± is the standard deviation over seeds. "
        "Relative positions are the paper's, clipped ones those of Shaw et "
        "al., absolute ones those of Vaswani et al.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(cells(row))} |" for row in rows),
        "",
    ]
    return "\n".join(lines)
