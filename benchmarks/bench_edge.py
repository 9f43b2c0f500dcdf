"""Time of a token in exported files, against Keras, peers and the bound.

    python benchmarks/bench_edge.py            # 12 layers, D = 512, M = 512
    python benchmarks/bench_edge.py --quick    # only to see that it runs
    python benchmarks/bench_edge.py --model my_model --text held_out.txt

One row, one token a call, ONNX Runtime in this process. Every file takes its
turn in each round, with `generate_stream` of Keras, so that a busy machine
harms all alike. With `--peers`, the script of `bench_decoding.py` measures
other implementations at once behind them, and the bound (NumPy reads weights,
keys and values once a token) in a process of its own: threads of ONNX Runtime
that wait for work would keep its cores. The ring then runs alone, `--tokens`
tokens, its time and the memory of the process by thousand. With
`--model` and `--text` a trained model is exported exactly, in int8 and in
fp16, and its bits per byte on the text are compared.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
import numpy as np
from bench_decoding import make_model
from decoding_peers import add_arguments
from decoding_peers import run_peers

import keras_txl

FILES = (
    "hidden float32",
    "kv float32",
    "kv_ring float32",
    "hidden int8",
    "kv_ring int8",
    "kv_ring fp16",
)
QUALITY = (None, "int8", "fp16")


def main() -> None:
    """Export, measure, write the results."""
    options = parse_arguments()
    report: dict[str, Any] = {
        **harness.environment(),
        "date": datetime.now(UTC).isoformat(),
    }
    with tempfile.TemporaryDirectory() as scratch:
        if options.model:
            report["quality"] = quality(options, Path(scratch))
        else:
            report |= speed(options, Path(scratch))
    kind = "quality" if options.model else "speed"
    path = options.output or harness.RESULTS / f"edge-{kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {path}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, number in (
        ("num-layers", 12),
        ("hidden-dim", 512),
        ("memory-length", 512),
        ("vocabulary-size", 204),
        ("samples", 20),
        ("tokens", 10_000),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--model", help="preset folder of a trained byte model")
    parser.add_argument("--text", type=Path, help="held-out text")
    parser.add_argument("--bytes", type=int, default=20_000, help="of the text")
    parser.add_argument("--files", nargs="+", choices=FILES, default=FILES)
    add_arguments(parser)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true", help="tiny model")
    parser.set_defaults(peer_names=["hf_transfoxl"], peer_backends=[])
    options = parser.parse_args()
    if (options.model is None) != (options.text is None):
        parser.error("--model and --text go together")
    if options.quick:
        options.num_layers, options.hidden_dim = 1, 64
        options.memory_length, options.samples = 16, 3
        options.tokens, options.files = 2000, ["kv_ring float32"]
    return options


def speed(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Seconds a token of each file in interleaved rounds; the long run."""
    params = {
        "num_layers": options.num_layers,
        "hidden_dim": options.hidden_dim,
        "memory_length": options.memory_length,
        "batch_size": 1,
    }
    lm = make_model(params, options.vocabulary_size)
    stream = lm.generate_stream(np.zeros((1, 1), "int32"), sampler="greedy")
    timed: dict[str, Callable[[], Any]] = {"keras": lambda: next(stream)}
    sizes, ring = {}, None
    for name in options.files:
        flavour, kind = name.split()
        folder = keras_txl.export.export_onnx(
            lm,
            scratch / name,
            flavour,
            quantize=None if kind == "float32" else kind,
        )
        sizes[name] = size_of(folder)
        timed[name] = token_loop(folder)
        if name == "kv_ring float32":
            ring = folder
    for call in timed.values():
        for _ in range(3):
            call()
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(options.samples):
        for name, call in timed.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    for name, samples in seconds.items():
        median = statistics.median(samples)
        print(
            f"{name:>16}: {median * 1e3:7.2f} ms a token, "
            f"{sizes.get(name, 0) / 2**20:6.1f} MiB",
            flush=True,
        )
    return {
        "params": params,
        "seconds": seconds,
        "bytes": sizes,
        "peers": run_peers(params, options) if options.peers else [],
        "long_run": long_run(ring, options.tokens) if ring else [],
    }


def token_loop(folder: Path) -> Callable[[], Any]:
    """A function that feeds one token, its memory full before."""
    manifest = keras_txl.export.read_manifest(folder)
    runner = keras_txl.export.open_onnx(folder)
    slots = manifest["model"]["memory_length"]
    state = runner.start(1)
    token = {
        "token_ids": np.zeros((1, 1), "int32"),
        "token_length": np.ones(1, "int32"),
    }
    if manifest["flavour"] == "hidden":
        state["memory_length"][:] = slots
    elif manifest["flavour"] == "kv":
        shape = (1, state[0].shape[1], slots, state[0].shape[3])
        state = [np.zeros(shape, "float32") for _ in state]
    else:
        state["length"][:] = slots

    def feed() -> None:
        nonlocal state
        _, state = runner.step(token, state)
        if isinstance(state, list):
            state = [rows[:, :, -slots:] for rows in state]

    return feed


def size_of(folder: Path) -> int:
    """Bytes of the model alone."""
    files = keras_txl.export.read_manifest(folder)["files"]
    return sum(
        told["bytes"]
        for name, told in files.items()
        if name.startswith("model.onnx")
    )


def long_run(folder: Any, tokens: int) -> list[dict[str, float]]:
    """Seconds a token and MiB of the process, by thousand tokens."""
    feed, rows = token_loop(folder), []
    for done in range(0, tokens, 1000):
        begin = time.perf_counter()
        for _ in range(min(1000, tokens - done)):
            feed()
        rows.append(
            {
                "tokens": done + 1000,
                "seconds": (time.perf_counter() - begin) / 1000,
                "resident_mib": resident_mib(),
            }
        )
    print(f"long run: {rows[0]} to {rows[-1]}", flush=True)
    return rows


def resident_mib() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def quality(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Bits per byte of a trained model, exact and quantized."""
    lm = keras_txl.models.TransformerXLCausalLM.from_preset(options.model)
    data = options.text.read_bytes()[: options.bytes]
    ids = np.frombuffer(data, "uint8").astype("int32")[None]
    found = {}
    for quantize in QUALITY:
        folder = keras_txl.export.export_onnx(
            lm, scratch / str(quantize), "hidden", quantize=quantize
        )
        name = quantize or "float32"
        found[name] = {
            "bits_per_byte": bits_per_byte(folder, ids),
            "seconds_a_token": seconds_a_token(folder),
            "bytes": size_of(folder),
        }
        print(f"{name}: {found[name]}", flush=True)
    return {**found, "text_bytes": len(data)}


def seconds_a_token(folder: Path, tokens: int = 50) -> float:
    """Median over single tokens behind a full memory."""
    feed, samples = token_loop(folder), []
    for _ in range(tokens):
        begin = time.perf_counter()
        feed()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


def bits_per_byte(folder: Path, ids: Any) -> float:
    """Mean loss of a text in segments of 64 with memory, in bits."""
    runner = keras_txl.export.open_onnx(folder)
    state, total = runner.start(1), 0.0
    for begin in range(0, ids.shape[1] - 1, 64):
        part = ids[:, begin : begin + 65]
        length = part.shape[1] - 1
        inputs = {
            "token_ids": np.ascontiguousarray(part[:, :-1]),
            "token_length": np.array([length], "int32"),
        }
        outputs, state = runner.step(inputs, state)
        logits = outputs["logits"][0].astype("float64")
        shifted = logits - logits.max(axis=-1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(-1))
        total += float((losses - shifted[np.arange(length), part[0, 1:]]).sum())
    return total / (ids.shape[1] - 1) / math.log(2)


if __name__ == "__main__":
    main()
