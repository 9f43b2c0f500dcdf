"""Time of a generated token by its position, against the bound and peers.

    python benchmarks/bench_decoding.py           # hours
    python benchmarks/bench_decoding.py --quick   # only to see that it runs
    python benchmarks/bench_decoding.py --peers peers.py --peers-python PYTHON

`positions`: a stream for each position, reached by real decoding from position
0, greedy. Then all take turns, so that a machine that becomes slower harms
all alike; a sample is one call of `--tokens-per-call` tokens, ids back on the
host. With `--state-dir` an interrupted run goes on where it was; `--prepare`
reaches the positions and times nothing.

`peers`: streams on each backend, the bound (NumPy reads weights, and keys and
values of the full memory, once a token) and with `--peers` other
implementations, in turns, each in a process of its own.

`KERAS_BACKEND` chooses the backend of the positions. What the results file has
is not run again, cell by cell, positions and peers apart.
"""

import argparse
import json
import os
import statistics
import sys
from datetime import UTC
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
import keras
from decoding_peers import add_arguments
from decoding_peers import run_peers
from decoding_positions import Journey
from decoding_positions import take_turns
from decoding_positions import tell
from run import write

import keras_txl

SLOWER_KERNELS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def main() -> None:
    """Run what the results file lacks."""
    options = parse_arguments()
    if any(name in os.environ for name in SLOWER_KERNELS):
        start_again()
    path = options.output or (
        harness.RESULTS / f"decoding-{keras.backend.backend()}.json"
    )
    report: dict[str, Any] = {"cells": []}
    if path.exists():
        report = json.loads(path.read_text())
    parts = {"positions": run_positions, "peers": run_peers}
    for params in chosen_cells(options):
        cell = cell_of(report, params)
        for part in options.parts:
            if part in cell:
                tell(f"{params}: has its {part}")
                continue
            try:
                found = parts[part](params, options)
            except Exception as error:  # a failed cell must say so
                cell["error"] = f"{type(error).__name__}: {error}"
                found = None
            if found:
                cell |= {part: found, "date": datetime.now(UTC).isoformat()}
            report |= harness.environment()
            write(path, json.dumps(report, indent=1) + "\n")
        print(summary(cell), flush=True)
    tell(f"wrote {path}")


def start_again() -> None:
    """Run this script with NumPy's best kernels: it has loaded others."""
    for name in SLOWER_KERNELS:
        os.environ.pop(name, None)
    os.execv(sys.executable, [sys.executable, *sys.argv])


def chosen_cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The parameters of each cell."""
    return [
        {
            "memory_length": memory_length,
            "batch_size": batch_size,
            "num_layers": options.num_layers,
            "hidden_dim": options.hidden_dim,
            "tokens_per_call": options.tokens_per_call,
        }
        for memory_length in options.memory_length
        for batch_size in options.batch_size
    ]


def cell_of(report: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """The cell of these parameters, new if there is none or it failed."""
    for cell in report["cells"]:
        if cell["params"] == params:
            cell.pop("error", None)
            return cell
    cell = {"params": params}
    report["cells"].append(cell)
    return cell


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, default in (
        ("memory-length", [128, 512, 1600]),
        ("batch-size", [1, 8]),
        ("positions", [100, 1_000, 10_000, 100_000]),
    ):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    for name, number in (
        ("num-layers", 12),
        ("hidden-dim", 512),
        ("vocabulary-size", 204),
        ("tokens-per-call", 16),
        ("samples", 40),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parts = ["positions", "peers"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument(
        "--state-dir", type=Path, help="memories of the streams on their way"
    )
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="only bring the streams to their positions, with --state-dir",
    )
    add_arguments(parser)
    parser.add_argument("--output", type=Path, help="results, also read")
    parser.add_argument("--quick", action="store_true", help="tiny model")
    options = parser.parse_args()
    if options.prepare and options.state_dir is None:
        parser.error("--prepare needs a folder to keep memories: --state-dir")
    if options.prepare:
        options.parts = ["positions"]
    if options.quick:
        options.memory_length, options.batch_size = [16], [1]
        options.positions, options.samples = [20, 200], 3
        options.num_layers, options.hidden_dim = 2, 64
        options.peer_backends = [keras.backend.backend()]
        options.rounds, options.seconds = 1, 0.1
    return options


def run_positions(
    params: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Samples of a call behind each position, and of the bound."""
    lm = make_model(params, options.vocabulary_size)
    journey = Journey(lm, params, options.state_dir)
    streams = []
    for mark in sorted(options.positions):
        tell(f"{params}: to position {mark:,}")
        stream, position = journey.stream_at(mark)
        if not options.prepare:
            streams.append((mark, stream, position))
    if options.prepare:
        return []
    return take_turns(streams, params, options.vocabulary_size, options.samples)


def make_model(params: dict[str, Any], vocabulary_size: int) -> Any:
    """A model with random weights."""
    keras.utils.set_random_seed(0)
    width = params["hidden_dim"]
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=vocabulary_size,
        num_layers=params["num_layers"],
        num_heads=max(1, width // 64),
        hidden_dim=width,
        intermediate_dim=4 * width,
        memory_length=params["memory_length"],
        dropout=0.0,
    )
    return keras_txl.models.TransformerXLCausalLM(backbone)


def summary(cell: dict[str, Any]) -> str:
    """A few lines for a person."""
    params = cell["params"]
    title = " ".join(f"{key}={value}" for key, value in params.items())
    if "error" in cell:
        return f"{title}: FAILED {cell['error']}"
    return "\n".join([title, *position_lines(cell), *peer_lines(cell)])


def position_lines(cell: dict[str, Any]) -> list[str]:
    """Medians, and how far a token costs more than at the first position."""
    lines = []
    rows = cell.get("positions", [])
    for row in rows:
        seconds = statistics.median(row["samples"])
        seconds /= cell["params"]["tokens_per_call"]
        low, ratio, high = ratio_to(rows[0]["samples"], row["samples"])
        lines.append(
            f"  position {row['position']:>7}: {seconds * 1e3:.2f} ms a token, "
            f"{ratio:.3f} times the first (quartiles {low:.3f} to {high:.3f})"
        )
    return lines


def ratio_to(first: list[float], other: list[float]) -> list[float]:
    """Quartiles of the ratios within the rounds; the middle is the median."""
    ratios = [b / a for a, b in zip(first, other, strict=True)]
    if len(ratios) < 2:
        return ratios * 3
    return statistics.quantiles(ratios, n=4)


def peer_lines(cell: dict[str, Any]) -> list[str]:
    """Tokens a second, and how they compare to the bound and to our best."""
    rows = cell.get("peers", [])
    rates = {row["peer"]: row.get("tokens_per_s") for row in rows}
    bound = rates.get("bound")
    own = [rates[name] or 0 for name in rates if name.startswith("keras_txl")]
    lines = []
    for row in rows:
        rate = row.get("tokens_per_s")
        if not rate:
            lines.append(f"  {row['peer']}: {row['error']}")
            continue
        more = f", {rate / bound:.0%} of the bound" if bound else ""
        if own and not row["peer"].startswith(("keras_txl", "bound")):
            more += f", {max(own) / rate:.2f} times slower than our best"
        lines.append(f"  {row['peer']}: {rate} tokens/s{more}")
    return lines


if __name__ == "__main__":
    main()
