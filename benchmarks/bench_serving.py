"""Requests a second and latency of servers, by the number of sessions.

    python benchmarks/bench_serving.py          # the servers at hand
    python benchmarks/bench_serving.py --quick  # only to see that it runs
    python benchmarks/bench_serving.py --servers triton

A model with random weights is exported, and each session, in a thread of its
own, sends segments one after the other with memory in every request. `local`
is the file in this process, without a server; `together` is the same with the
rows of all sessions in one call: what joining waiting requests can reach at
most. The others are the recipes under export/serving, over HTTP, in another
process on the same machine. `kserve` and `sequences` (memory in Triton, by
sequence) join requests that wait, `kserve-alone` and `sequences-alone` are the
same without it; `triton`, with memory of the client, cannot.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np

import keras_txl
from keras_txl.export import serving

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "export" / "serving"
SERVERS = {
    "local": "tensorflow",
    "together": "tensorflow",
    "kserve": "kserve",
    "kserve-alone": "kserve",
    "triton": "pytriton",
    "sequences": "pytriton",
    "sequences-alone": "pytriton",
}


class StepOnly:
    """A server that has `step` alone: new memory is made here."""

    def __init__(self, server: Any, shapes: dict[str, Any]) -> None:
        self.server = server
        self.shapes = shapes

    def predict(self, signature: str, inputs: Any) -> Any:
        """Run a signature."""
        if signature != "initial_memory":
            return self.server.predict(signature, inputs)
        rows = len(inputs["rows"])
        return {
            name: np.zeros([rows, *spec["shape"][1:]], spec["dtype"])
            for name, spec in self.shapes.items()
        }


class Sequence:
    """A stream whose memory stays in Triton."""

    def __init__(self, address: str, number: int) -> None:
        parameters = {"sequence_id": number, "sequence_start": True}
        self.server = serving.KServeV2(
            address, "bench_session", parameters=parameters
        )

    def step(self, segment: list[list[int]]) -> Any:
        """Read a segment."""
        inputs = {"token_ids": np.array(segment, "int32")}
        logits = self.server.predict("step", inputs)["logits"]
        self.server.parameters["sequence_start"] = False
        return logits


def main() -> None:
    """Export, run every server, write the results."""
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = export(options, Path(scratch))
        cells = []
        for name in options.servers:
            with running(name, folder, Path(scratch)) as server:
                for sessions in options.sessions:
                    cells.append(cell(name, server, sessions, options))
                    print(summary(cells[-1]), flush=True)
    report = {**harness.environment(), "cells": cells}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {options.output}", file=sys.stderr)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    at_hand = [name for name, package in SERVERS.items() if find_spec(package)]
    parser.add_argument("--servers", nargs="+", choices=SERVERS)
    parser.add_argument("--sessions", nargs="+", type=int, default=[1, 8, 32])
    for name, number in (
        ("requests", 320),
        ("segment-length", 16),
        ("memory-length", 128),
        ("num-layers", 4),
        ("hidden-dim", 128),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--output", type=Path, default=harness.RESULTS / "serving.json"
    )
    options = parser.parse_args()
    options.servers = options.servers or at_hand
    if options.quick:
        options.sessions, options.requests = [2], 8
        options.memory_length, options.num_layers, options.hidden_dim = 8, 1, 16
    return options


def export(options: argparse.Namespace, scratch: Path) -> Path:
    """The version folder of a model over bytes."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=options.num_layers,
        num_heads=max(options.hidden_dim // 32, 1),
        hidden_dim=options.hidden_dim,
        intermediate_dim=4 * options.hidden_dim,
        memory_length=options.memory_length,
        dropout=0.0,
    )
    lm = keras_txl.models.TransformerXLCausalLM(backbone)
    return keras_txl.export.export_saved_model(lm, scratch / "bench")


@contextmanager
def running(name: str, folder: Path, scratch: Path) -> Iterator[Any]:
    """A server by its name, ready."""
    if name in ("local", "together"):
        yield serving.LocalSavedModel(folder)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    recipe, _, alone = name.partition("-")
    most = "1" if alone else "64"
    words: list[Any]
    if recipe == "kserve":
        words = ["kserve_server.py", folder, "--name", "bench"]
        words += ["--http_port", port, "--enable_grpc", "false"]
        words += ["--most-requests", most]
    else:
        place = scratch / name
        make: list[Any] = [RECIPES / "triton_repository.py", folder, place]
        make += ["--most-requests", most]
        subprocess.run(
            [sys.executable, *map(str, make)],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        words = ["run_triton.py", place, "--http-port", port]
    process = subprocess.Popen(
        [sys.executable, RECIPES / words[0], *map(str, words[1:])],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"{address}/v2/health/ready")
        if recipe == "sequences":
            yield address
            return
        shapes = keras_txl.export.read_manifest(folder)["signatures"]
        memory = shapes["initial_memory"]["outputs"]
        yield StepOnly(serving.KServeV2(address, "bench"), memory)
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, seconds: float = 120.0) -> None:
    """Return when a URL answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def cell(
    name: str, server: Any, sessions: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Latencies of all requests of a number of sessions."""
    joined = name == "together"
    rows, threads = (sessions, 1) if joined else (1, sessions)
    each = max(options.requests // sessions, 1)
    segment = [[0] * options.segment_length] * rows
    streams = [
        Sequence(server, 1000 * sessions + number)
        if isinstance(server, str)
        else serving.StreamSession(server, rows)
        for number in range(threads)
    ]

    def read(stream: Any) -> list[float]:
        samples = []
        for _ in range(each):
            begin = time.perf_counter()
            stream.step(segment)
            samples.append(time.perf_counter() - begin)
        return samples

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda stream: stream.step(segment), streams))
        begin = time.perf_counter()
        samples = [s for many in pool.map(read, streams) for s in many]
        seconds = time.perf_counter() - begin
    return {
        "server": name,
        "sessions": sessions,
        "segments_per_second": len(samples) * rows / seconds,
        "samples": samples,
        "params": {
            key: getattr(options, key)
            for key in (
                "segment_length",
                "memory_length",
                "num_layers",
                "hidden_dim",
            )
        },
    }


def summary(result: dict[str, Any]) -> str:
    """A line for one cell."""
    quantiles = statistics.quantiles(result["samples"], n=100)
    return (
        f"{result['server']:15} {result['sessions']:3} sessions "
        f"{result['segments_per_second']:8.1f} segments/s, latency p50 "
        f"{1e3 * quantiles[49]:.1f} ms, p99 {1e3 * quantiles[98]:.1f} ms"
    )


if __name__ == "__main__":
    main()
