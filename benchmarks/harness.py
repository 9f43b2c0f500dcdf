"""Runs the classes of a bench_*.py file that asv would run, and keeps samples.

A benchmark class has `params`, `param_names`, `setup(*params)`, methods
`time_*` and `peakmem_*`, and may have `repeat`, its number of samples. Here
`setup` builds, compiles and warms up, and is timed apart. Each sample is one
call of a `time_*` method, which must not return before the device is done. A
`peakmem_*` method runs once in a process of its own, whose largest resident
size counts. A cell that fails is kept with its error.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import resource
import runpy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from datetime import UTC
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import keras

RESULTS = Path(__file__).resolve().parent / "results"
SAMPLES = 20
PACKAGES = ("keras-txl", "keras", "keras-hub", "numpy", "tensorflow")


def main(
    name: str,
    benchmarks: Sequence[Any],
    conclude: Callable[[list[dict[str, Any]]], dict[str, Any]] | None = None,
) -> None:
    """Run benchmark classes from the command line and write the results.

    Args:
        name: of the file in `results/`.
        benchmarks: classes in asv form.
        conclude: takes the cells of all; what it returns joins the report.
    """
    parser = _parser(name)
    arguments = parser.parse_args()
    cells = []
    for benchmark in benchmarks:
        try:
            benchmark.params = chosen_params(benchmark, arguments.param)
        except ValueError as error:
            parser.error(str(error))
        samples = arguments.samples or getattr(benchmark, "repeat", SAMPLES)
        if arguments.quick:
            samples = 3
        for cell in _run(benchmark, samples, arguments.quick):
            print(_summary(cell), flush=True)
            cells.append(cell)
    now = datetime.now(UTC)
    prefix = "quick-" if arguments.quick else ""
    stamp = now.strftime("%Y%m%d-%H%M%S")
    path = arguments.output or (
        RESULTS / f"{prefix}{name}-{keras.backend.backend()}-{stamp}.json"
    )
    report = {**environment(), "date": now.isoformat(), "cells": cells}
    if conclude is not None:
        report |= conclude(cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {path}", file=sys.stderr)
    if any("error" in cell for cell in cells):
        sys.exit(1)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Run the {name} benchmarks.")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="smallest parameters and 3 samples, to see that it runs",
    )
    parser.add_argument(
        "--samples",
        type=int,
        help=f"samples a cell (default {SAMPLES}, or what the class says)",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE...]",
        help="values of a parameter instead of those in the file",
    )
    parser.add_argument("--output", type=Path, help="JSON file to write")
    return parser


def chosen_params(benchmark: Any, chosen: Sequence[str]) -> tuple[Any, ...]:
    """The parameters of a class, with some values chosen anew.

    Args:
        benchmark: class in asv form.
        chosen: `NAME=VALUE,VALUE`, read as the type of the values there.

    Raises:
        ValueError: if the class has no such parameter, or not of that type.
    """
    params = dict(zip(benchmark.param_names, benchmark.params, strict=True))
    for choice in chosen:
        name, _, values = choice.partition("=")
        if name not in params:
            raise ValueError(
                f"--param must be one of {', '.join(params)}. Received: "
                f"{choice!r}."
            )
        kind = type(params[name][0])
        params[name] = [kind(value) for value in values.split(",")]
    return tuple(params.values())


def _run(benchmark: Any, samples: int, quick: bool) -> Iterator[dict[str, Any]]:
    methods = [
        name
        for name in dir(benchmark)
        if name.startswith(("time_", "peakmem_"))
    ]
    products = list(itertools.product(*benchmark.params))
    for values in products[:1] if quick else products:
        params = dict(zip(benchmark.param_names, values, strict=True))
        for method in methods:
            cell: dict[str, Any] = {
                "benchmark": f"{benchmark.__name__}.{method}",
                "params": params,
                "unit": "seconds" if method.startswith("time_") else "MiB",
            }
            try:
                if method.startswith("time_"):
                    cell |= _measure(benchmark(), method, values, samples)
                else:
                    cell |= _measure_memory(benchmark, method, values)
            except Exception as error:  # a failed cell must say so
                cell["error"] = f"{type(error).__name__}: {error}"
            yield cell


def _measure(
    instance: Any, method: str, values: tuple[Any, ...], samples: int
) -> dict[str, Any]:
    begin = time.perf_counter()
    instance.setup(*values)
    getattr(instance, method)(*values)
    setup_seconds = time.perf_counter() - begin
    times = []
    for _ in range(samples):
        begin = time.perf_counter()
        getattr(instance, method)(*values)
        times.append(time.perf_counter() - begin)
    return {"setup_and_compile_seconds": setup_seconds, "samples": times}


def _measure_memory(
    benchmark: type, method: str, values: tuple[Any, ...]
) -> dict[str, Any]:
    script = sys.modules[benchmark.__module__].__file__
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        before, peak = pool.apply(
            _peak_memory, (script, benchmark.__name__, method, values)
        )
    return {"after_setup": before, "samples": [peak]}


def _peak_memory(
    script: str, name: str, method: str, values: tuple[Any, ...]
) -> tuple[float, float]:
    """Largest resident size in MiB so far: after `setup`, and at the end."""
    instance = runpy.run_path(script)[name]()
    instance.setup(*values)
    before = _largest_resident_size()
    getattr(instance, method)(*values)
    return before, _largest_resident_size()


def _largest_resident_size() -> float:
    status = Path("/proc/self/status")
    if status.exists():  # `getrusage` would count the parent process, too
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10


def _summary(cell: dict[str, Any]) -> str:
    params = " ".join(f"{key}={value}" for key, value in cell["params"].items())
    if "error" in cell:
        return f"{cell['benchmark']} {params}: FAILED {cell['error']}"
    if cell["unit"] == "MiB":
        return (
            f"{cell['benchmark']} {params}: peak {cell['samples'][0]:.0f} MiB, "
            f"{cell['after_setup']:.0f} MiB after setup"
        )
    times = cell["samples"]
    several = times if len(times) > 1 else times * 2
    low, _, high = statistics.quantiles(several, n=4)
    return (
        f"{cell['benchmark']} {params}: "
        f"median {statistics.median(times) * 1e3:.1f} ms, "
        f"quartiles {low * 1e3:.1f} to {high * 1e3:.1f} ms, "
        f"{len(times)} samples"
    )


def environment() -> dict[str, Any]:
    """Commit, versions and machine of a run."""
    versions = {"python": platform.python_version()}
    for package in (*PACKAGES, keras.backend.backend()):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain").splitlines()),
        "versions": versions,
        "backend": keras.backend.backend(),
        "devices": _devices(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
    }


def _devices() -> list[str]:
    if keras.backend.backend() != "torch":
        return [str(name) for name in keras.distribution.list_devices()]
    # Keras lists no devices on this backend.
    import torch

    count = torch.cuda.device_count()
    return [torch.cuda.get_device_name(i) for i in range(count)] or ["cpu"]


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            check=True,
            cwd=RESULTS.parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2] for line in lines if "model name" in line]
    return names[0].strip() if names else platform.processor()
