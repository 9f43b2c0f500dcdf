"""Time of a generated token by its position, against the bound and peers.

    python benchmarks/bench_decoding.py           # hours
    python benchmarks/bench_decoding.py --quick   # only to see that it runs
    python benchmarks/bench_decoding.py --peers peers.py --tf-python PYTHON

`KERAS_BACKEND` chooses the backend. Every position is reached by real
decoding from position 0, greedy, with `generate_stream`; a sample is one call
of `--tokens-per-call` tokens behind a position, ids back on the host. After
each sample, in the same process, NumPy reads every weight matrix, and keys and
values of the full memory, once and does nothing else: the bound of a token.

With `--peers`, a script that starts each implementation in a process of its
own and lets them take turns, the streams of `--peer-backends` among them (see
`peers_plugin.py`); it prints a line of JSON for each. What the results file
has is not run again, cell by cell, positions and peers apart.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
import keras
import numpy as np

import keras_txl

PEER_CONFIG = "enwik8-base"  # 12 layers, D = 512, as the defaults here
TENSORFLOW_PEERS = [
    "keras_transformer_xl",
    "tfm_transformer_xl",
    "tfm_transformer_xl_xla",
]
PEER_NAMES = [
    "hf_transfoxl",
    "hf_transfoxl_compile",
    "x_transformers",
    "x_transformers_compile",
    "x_transformers_rotary_flash",
    "x_transformers_kvcache",
    *TENSORFLOW_PEERS,
]


def main() -> None:
    """Run what the results file lacks."""
    options = parse_arguments()
    path = options.output or (
        harness.RESULTS / f"decoding-{keras.backend.backend()}.json"
    )
    report: dict[str, Any] = {"cells": []}
    if path.exists():
        report = json.loads(path.read_text())
    for memory_length in options.memory_length:
        for batch_size in options.batch_size:
            params = {
                "memory_length": memory_length,
                "batch_size": batch_size,
                "num_layers": options.num_layers,
                "hidden_dim": options.hidden_dim,
                "tokens_per_call": options.tokens_per_call,
            }
            cell = cell_of(report, params)
            for part, measure in (
                ("positions", run_positions),
                ("peers", run_peers if options.peers else None),
            ):
                if measure is None or part in cell:
                    tell(f"{params}: no {part} to run")
                    continue
                measure_part(cell, part, measure, options)
                report |= harness.environment()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(report, indent=1) + "\n")
            print(summary(cell), flush=True)
    tell(f"wrote {path}")


def cell_of(report: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """The cell of these parameters, new if there is none or it failed."""
    for cell in report["cells"]:
        if cell["params"] == params:
            cell.pop("error", None)
            return cell
    cell = {"params": params}
    report["cells"].append(cell)
    return cell


def measure_part(
    cell: dict[str, Any],
    part: str,
    measure: Callable[[dict[str, Any], argparse.Namespace], Any],
    options: argparse.Namespace,
) -> None:
    """Put what `measure` finds into the cell, or why it failed."""
    cell["date"] = datetime.now(UTC).isoformat()
    try:
        cell[part] = measure(cell["params"], options)
    except subprocess.CalledProcessError as error:
        cell["error"] = f"{error}: {error.stderr[-2000:]}"
    except Exception as error:  # a failed cell must say so
        cell["error"] = f"{type(error).__name__}: {error}"


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
        ("samples", 20),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--peers", type=Path, help="script of the peers")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--tf-python", help="passed on to the peers")
    parser.add_argument(
        "--peer-names",
        nargs="+",
        default=PEER_NAMES,
        help="without --tf-python, those on TensorFlow are left out",
    )
    parser.add_argument(
        "--peer-backends",
        nargs="+",
        default=[keras.backend.backend()],
        help="streams that take turns with the peers",
    )
    parser.add_argument(
        "--peer-options",
        default="",
        help='more for the script of the peers, "--rounds 3 --seconds 1"',
    )
    parser.add_argument("--output", type=Path, help="results, also read")
    parser.add_argument("--quick", action="store_true", help="tiny model")
    options = parser.parse_args()
    if options.quick:
        options.memory_length, options.batch_size = [16], [1]
        options.positions, options.samples = [20, 200], 3
        options.num_layers, options.hidden_dim = 2, 64
    return options


def run_positions(
    params: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Seconds of a call and of the bound behind each position."""
    lm = make_model(params, options.vocabulary_size)
    matrices = [
        np.asarray(keras.ops.convert_to_numpy(weight))
        for weight in lm.trainable_weights
    ]
    return decode(lm, Bound(matrices, params), params, options)


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


def decode(
    lm: Any,
    bound: "Bound",
    params: dict[str, Any],
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """All samples behind each position, those of the bound in between."""
    batch, tokens = params["batch_size"], params["tokens_per_call"]
    begin = time.perf_counter()
    stream = lm.generate_stream(
        np.zeros((batch, 1), "int32"),
        sampler="greedy",
        stop_token_ids=None,
        tokens_per_call=tokens,
    )
    next(stream)
    setup = time.perf_counter() - begin
    position, results = tokens, []
    for mark in sorted(options.positions):
        while position < mark:
            next(stream)
            position += tokens
            if position % 1024 < tokens:
                tell(f"{params}: position {position}", end="\r")
        samples, bound_samples = [], []
        for _ in range(options.samples):
            begin = time.perf_counter()
            next(stream)
            samples.append(time.perf_counter() - begin)
            bound_samples.append(bound.read_once())
            position += tokens
        results.append(
            {
                "position": mark,
                "samples": samples,
                "bound_samples": bound_samples,
            }
        )
    results[0]["setup_and_compile_seconds"] = setup
    return results


class Bound:
    """What one token of each row needs at least: all of it read once.

    Args:
        matrices: weights; those of one axis are left out.
        params: of the cell.
    """

    def __init__(self, matrices: list[Any], params: dict[str, Any]) -> None:
        generator = np.random.default_rng(0)

        def random(*shape: int) -> Any:
            return generator.standard_normal(shape, dtype="float32")

        batch, width = params["batch_size"], params["hidden_dim"]
        self.weights = [
            matrix.reshape(matrix.shape[0], -1).astype("float32")
            for matrix in matrices
            if matrix.ndim > 1
        ]
        self.inputs = {
            rows: random(batch, rows) for rows in map(len, self.weights)
        }
        heads = max(1, width // 64)
        self.cache = [
            random(batch * heads, params["memory_length"], width // heads)
            for _ in range(2 * params["num_layers"])
        ]
        self.query = random(batch * heads, width // heads, 1)
        self.read_once()  # warm

    def read_once(self) -> float:
        """Seconds in which NumPy does it."""
        begin = time.perf_counter()
        for matrix in self.weights:
            self.inputs[len(matrix)] @ matrix
        for rows in self.cache:
            rows @ self.query
        return time.perf_counter() - begin


def run_peers(
    params: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """What other implementations and the streams need, turn by turn."""
    rows = params["batch_size"]
    names = [f"keras_txl_{backend}" for backend in options.peer_backends]
    for name in options.peer_names:
        if options.tf_python or name not in TENSORFLOW_PEERS:
            names.append(name)
    if rows > 1:
        names = [f"{name}_rows" for name in names]
    plugin = Path(__file__).with_name("peers_plugin.py")
    command = [
        *(options.peers_python, str(options.peers), "run"),
        *("--config", PEER_CONFIG, "--modes", "generate"),
        *("--plugin", str(plugin), "--peers", ",".join(names)),
        *shlex.split(options.peer_options),
    ]
    for key, value in (
        ("batch", rows),
        ("mem_len", params["memory_length"]),
        ("n_layer", params["num_layers"]),
        ("d_model", params["hidden_dim"]),
        ("n_head", max(1, params["hidden_dim"] // 64)),
        ("d_inner", 4 * params["hidden_dim"]),
        ("vocab", options.vocabulary_size),
    ):
        command += ["--set", f"{key}={value}"]
    if options.tf_python:
        command += ["--tf-python", options.tf_python]
    package = Path(keras_txl.__file__).parent.parent
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "KERAS_TXL_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
    )
    return [
        json.loads(line)
        for line in done.stdout.splitlines()
        if line.startswith("{")
    ]


def summary(cell: dict[str, Any]) -> str:
    """A few lines for a person."""
    params = cell["params"]
    title = " ".join(f"{key}={value}" for key, value in params.items())
    if "error" in cell:
        return f"{title}: FAILED {cell['error']}"
    lines = [title]
    medians = []
    for result in cell["positions"]:
        seconds = statistics.median(result["samples"])
        seconds /= params["tokens_per_call"]
        bound = statistics.median(result["bound_samples"])
        medians.append(seconds)
        lines.append(
            f"  position {result['position']:>7}: {seconds * 1e3:.2f} ms a "
            f"token, {params['batch_size'] / seconds:.1f} tokens/s, "
            f"{bound / seconds:.0%} of the bound of {bound * 1e3:.2f} ms"
        )
    lines.append(f"  slowest over fastest: {max(medians) / min(medians):.3f}")
    peers = cell.get("peers", [])
    rates = {
        row["peer"]: row["tokens_per_s"]
        for row in peers
        if "tokens_per_s" in row
    }
    own = {name: rates[name] for name in rates if name.startswith("keras_txl")}
    for row in peers:
        if row["peer"] not in rates:
            lines.append(f"  {json.dumps(row)}")
            continue
        faster = ", ".join(
            f"{name} {rate / rates[row['peer']]:.2f} times"
            for name, rate in own.items()
            if row["peer"] not in own
        )
        lines.append(
            f"  {row['peer']}: {row['tokens_per_s']} tokens/s {faster}"
        )
    return "\n".join(lines)


def tell(text: str, end: str = "\n") -> None:
    """Progress."""
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
