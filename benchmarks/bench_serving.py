"""Requests a second and latency of servers, by the number of sessions.

    python benchmarks/bench_serving.py          # the servers at hand
    python benchmarks/bench_serving.py --quick  # only to see that it runs
    python benchmarks/bench_serving.py --servers triton

A model with random weights is exported, and each session, in a thread of its
own, sends segments one after the other with memory in every request. `local`
is the file in this process, without a server; `together` is the same with the
rows of all sessions in one call: what joining waiting requests can reach at
most. `grpc` and `rest` speak TensorFlow Serving's protocols to a double of it
(tests/export/server_double.py): they time protocol and model, not its program.
The others are the recipes under export/serving, over HTTP, `kserve-v1` by the
protocol that has numbers as text. All servers run in another process on the
same machine. `triton` has memory of the client, `sequences` keeps it in Triton,
by sequence. Servers join requests that wait, and with `-alone` behind their
names they do not.

Each cell is measured for some seconds. Cells of servers that were not asked
for stay in the results file, and the table of docs/guides is written anew.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np
from serving_report import latencies
from serving_report import write_table

import keras_txl
from keras_txl.export import serving

ROOT = Path(__file__).resolve().parents[1]
RESULTS = harness.RESULTS / "serving.json"
RECIPES = ROOT / "export" / "serving"
GUIDE = ROOT / "docs" / "guides" / "serve_with_tensorflow_serving.md"
SERVERS = {
    "local": "tensorflow",
    "together": "tensorflow",
    "grpc": "tensorflow_serving",
    "grpc-alone": "tensorflow_serving",
    "rest": "tensorflow",
    "rest-alone": "tensorflow",
    "kserve": "kserve",
    "kserve-alone": "kserve",
    "kserve-v1": "kserve",
    "kserve-v1-alone": "kserve",
    "triton": "pytriton",
    "triton-alone": "pytriton",
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
    # Servers are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as scratch:
        folder = export(options, Path(scratch))
        cells = []
        for name in options.servers:
            with running(name, folder, Path(scratch)) as server:
                for sessions in options.sessions:
                    cells.append(cell(name, server, sessions, options))
                    print(summary(cells[-1]), flush=True)
    write_results(cells, options.output)


def write_results(cells: list[dict[str, Any]], output: Path) -> None:
    """Keep the cells of other servers that the file has."""
    measured = {one["server"] for one in cells}
    kept = json.loads(output.read_text())["cells"] if output.exists() else []
    cells = cells + [one for one in kept if one["server"] not in measured]
    cells.sort(key=lambda one: list(SERVERS).index(one["server"]))
    date = datetime.now(UTC).isoformat()
    report = {**harness.environment(), "date": date, "cells": cells}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report) + "\n")
    print(f"wrote {output}", file=sys.stderr)
    if output.resolve() == RESULTS:
        write_table(report, GUIDE)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    at_hand = [name for name, package in SERVERS.items() if find_spec(package)]
    parser.add_argument("--servers", nargs="+", choices=SERVERS)
    parser.add_argument("--sessions", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=3.0, help="a cell")
    for name, number in (
        ("segment-length", 16),
        ("memory-length", 128),
        ("num-layers", 4),
        ("hidden-dim", 128),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.servers = options.servers or at_hand
    if options.quick:
        options.sessions, options.seconds = [2], 0.2
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
    kind = name.removesuffix("-alone")
    most = 64 if name == kind else 1
    words = server_words(kind, folder, scratch / name, port, most)
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if kind == "grpc":
            wait_for_port(port)
            yield serving.TensorFlowServingGrpc(f"127.0.0.1:{port}", "bench")
            return
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/v2/health/ready")
        shapes = keras_txl.export.read_manifest(folder)["signatures"]
        memory = shapes["initial_memory"]["outputs"]
        if kind == "sequences":
            yield address
        elif kind == "rest":
            yield serving.TensorFlowServingRest(address, "bench")
        elif kind == "kserve":
            yield serving.KServeV2(address, "bench")
        elif kind == "kserve-v1":
            yield serving.KServeV1(address, "bench")
        else:
            yield StepOnly(serving.KServeV2(address, "bench"), memory)
    finally:
        process.terminate()  # by it Triton ends its own processes
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment() -> dict[str, str]:
    """Of the processes that this one starts."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def server_words(
    kind: str, folder: Path, place: Path, port: int, most: int
) -> list[Any]:
    """The command line of a server; `most` requests run together."""
    if kind in ("grpc", "rest"):
        double = ROOT / "tests" / "export" / "server_double.py"
        return [double, kind, folder, port, most]
    if kind in ("kserve", "kserve-v1"):
        words: list[Any] = [RECIPES / "kserve_server.py", folder]
        words += ["--name", "bench", "--enable_grpc", "false"]
        words += ["--http_port", port]
        return [*words, "--most-requests", most]
    make: list[Any] = [RECIPES / "triton_repository.py", folder, place]
    make += ["--most-requests", most]
    subprocess.run(
        [sys.executable, *map(str, make)],
        env=environment(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [RECIPES / "run_triton.py", place, "--http-port", port]


def wait_for_port(port: int, seconds: float = 120.0) -> None:
    """Return when a port takes connections."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


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
    segment = [[0] * options.segment_length] * rows
    streams = [
        Sequence(server, 1000 * sessions + number)
        if isinstance(server, str)
        else serving.StreamSession(server, rows)
        for number in range(threads)
    ]

    def read(stream: Any) -> list[float]:
        samples: list[float] = []
        while not samples or time.perf_counter() < end:
            begin = time.perf_counter()
            stream.step(segment)
            samples.append(round(time.perf_counter() - begin, 5))
        return samples

    pool = ThreadPoolExecutor(threads)
    try:
        list(pool.map(lambda stream: stream.step(segment), streams))
        begin = time.perf_counter()
        end = begin + options.seconds
        samples = [s for many in pool.map(read, streams) for s in many]
        seconds = time.perf_counter() - begin
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
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
    middle, last = latencies(result)
    return (
        f"{result['server']:15} {result['sessions']:3} sessions "
        f"{result['segments_per_second']:8.1f} segments/s, latency p50 "
        f"{middle:.1f} ms, p99 {last:.1f} ms"
    )


if __name__ == "__main__":
    main()
