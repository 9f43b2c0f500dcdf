"""Time of a generated token by its position, against the bound and peers.

    python benchmarks/bench_decoding.py           # hours
    python benchmarks/bench_decoding.py --quick   # only to see that it runs
    python benchmarks/bench_decoding.py --peers peers.py --tf-python PYTHON

`KERAS_BACKEND` chooses the backend. Every position is reached by real
decoding from position 0, greedy, with `generate_stream`; a sample is one call
of `--tokens-per-call` tokens behind a position, ids back on the host. In the
same cell NumPy reads every weight matrix, and keys and values of the full
memory, once a token and does nothing else: the bound. With `--peers`, a
script that prints a line of JSON for each implementation (`run --modes
generate`, one row) runs right after it. A cell that is in the results file
is not run again.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from datetime import UTC
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
import keras
import numpy as np

import keras_txl

PEER_CONFIG = "enwik8-base"  # 12 layers, D = 512, as the defaults here


def main() -> None:
    """Run the cells that the results file lacks."""
    options = parse_arguments()
    path = options.output or (
        harness.RESULTS / f"decoding-{keras.backend.backend()}.json"
    )
    report: dict[str, Any] = {"cells": []}
    if path.exists():
        report = json.loads(path.read_text())
    done = [cell["params"] for cell in report["cells"] if "error" not in cell]
    for memory_length in options.memory_length:
        for batch_size in options.batch_size:
            params = {
                "memory_length": memory_length,
                "batch_size": batch_size,
                "num_layers": options.num_layers,
                "hidden_dim": options.hidden_dim,
                "tokens_per_call": options.tokens_per_call,
            }
            if params in done:
                tell(f"{params}: in {path} already")
                continue
            cell = run_cell(params, options)
            report["cells"] = [
                old for old in report["cells"] if old["params"] != params
            ] + [cell]
            report |= harness.environment()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(report, indent=1) + "\n")
            print(summary(cell), flush=True)
    tell(f"wrote {path}")


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
    parser.add_argument("--output", type=Path, help="results, also read")
    parser.add_argument("--quick", action="store_true", help="tiny model")
    options = parser.parse_args()
    if options.quick:
        options.memory_length, options.batch_size = [16], [1]
        options.positions, options.samples = [20, 200], 3
        options.num_layers, options.hidden_dim = 2, 64
    return options


def run_cell(
    params: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Decode through all positions; then the bound and the peers."""
    cell: dict[str, Any] = {
        "params": params,
        "date": datetime.now(UTC).isoformat(),
    }
    try:
        lm = make_model(params, options.vocabulary_size)
        cell["positions"] = decode(lm, params, options)
        matrices = [
            np.asarray(keras.ops.convert_to_numpy(weight))
            for weight in lm.trainable_weights
        ]
        cell["bound_seconds"] = read_once(matrices, params, options.samples)
        if options.peers:
            cell["peers"] = run_peers(params, options)
    except Exception as error:  # a failed cell must say so
        cell["error"] = f"{type(error).__name__}: {error}"
    return cell


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
    lm: Any, params: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Seconds of a call behind each position, all of them."""
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
        samples = []
        for _ in range(options.samples):
            begin = time.perf_counter()
            next(stream)
            samples.append(time.perf_counter() - begin)
            position += tokens
        results.append({"position": mark, "samples": samples})
    results[0]["setup_and_compile_seconds"] = setup
    return results


def read_once(
    matrices: list[Any], params: dict[str, Any], samples: int
) -> list[float]:
    """Seconds in which NumPy reads what one token of each row needs."""
    generator = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype="float32")

    batch, width = params["batch_size"], params["hidden_dim"]
    weights = [
        matrix.reshape(matrix.shape[0], -1).astype("float32")
        for matrix in matrices
        if matrix.ndim > 1
    ]
    inputs = {rows: random(batch, rows) for rows in {len(w) for w in weights}}
    heads = max(1, width // 64)
    cache = [
        random(batch * heads, params["memory_length"], width // heads)
        for _ in range(2 * params["num_layers"])
    ]
    query = random(batch * heads, width // heads, 1)
    times = []
    for _ in range(samples + 1):
        begin = time.perf_counter()
        for matrix in weights:
            inputs[len(matrix)] @ matrix
        for rows in cache:
            rows @ query
        times.append(time.perf_counter() - begin)
    return times[1:]


def run_peers(
    params: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """What other implementations need, one row a time."""
    if params["batch_size"] != 1:
        return [{"error": "the script of the peers generates one row"}]
    command = [
        *(options.peers_python, str(options.peers), "run"),
        *("--config", PEER_CONFIG, "--modes", "generate"),
    ]
    for key, value in (
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
    done = subprocess.run(command, capture_output=True, text=True, check=True)
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
    bound = statistics.median(cell["bound_seconds"])
    lines = [f"{title}: bound {bound * 1e3:.2f} ms a token"]
    medians = []
    for result in cell["positions"]:
        seconds = statistics.median(result["samples"])
        seconds /= params["tokens_per_call"]
        medians.append(seconds)
        lines.append(
            f"  position {result['position']:>7}: {seconds * 1e3:.2f} ms a "
            f"token, {params['batch_size'] / seconds:.1f} tokens/s, "
            f"{bound / seconds:.0%} of the bound"
        )
    lines.append(f"  slowest over fastest: {max(medians) / min(medians):.3f}")
    for peer in cell.get("peers", []):
        if "tokens_per_s" in peer:
            ratio = 1 / medians[-1] / peer["tokens_per_s"]
            lines.append(
                f"  {peer['peer']}: {peer['tokens_per_s']} tokens/s, "
                f"we are {ratio:.2f} times as fast"
            )
        else:
            lines.append(f"  {json.dumps(peer)}")
    return "\n".join(lines)


def tell(text: str, end: str = "\n") -> None:
    """Progress."""
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
