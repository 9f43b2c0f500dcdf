"""One command for speed: training, evaluation and decoding, with peers.

    python benchmarks/run.py --quick                     # seconds: it runs
    python benchmarks/run.py --full --peers peers.py \\
        --peers-python PYTHON --peers-tensorflow-python PYTHON
    python benchmarks/run.py --full --accelerator --dtype mixed_bfloat16
    python benchmarks/run.py --report                    # tables and plots only

Every implementation runs in a process of its own, which builds, compiles and
warms up alone. Then all of a cell take turns in bursts, so that a slow spell
of the machine harms them alike, and with them products of two square matrices,
the machine's own rate. `--peers` names a script that answers `worker --peer
NAME --mode MODE --cfg JSON --threads N` in the way of `speed_worker.py`.

The results file keeps every burst; tables in `docs/performance.md` and plots
in `docs/images` are made of it by the same command. A cell that the file has
already is not run again without `--again`.
"""

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import speed_report
from speed_configs import CONFIGS
from speed_configs import GENERATION_ONLY
from speed_configs import PEERS
from speed_configs import SWEEPS
from speed_configs import TENSORFLOW_PEERS
from speed_configs import flops

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "speed.json"
VARIANTS = [
    "keras_txl_tensorflow",
    "keras_txl_tensorflow_xla",
    "keras_txl_jax",
    "keras_txl_torch",
    "keras_txl_torch_compile",
]
BOUNDS = [
    f"product_{library}"
    for library in ("numpy", "tensorflow", "torch")
    if find_spec(library)
]


def main() -> None:
    """Measure what the results file lacks and write the report."""
    options = parse_arguments()
    report: dict[str, Any] = {"cells": []}
    if options.output.exists():
        report = json.loads(options.output.read_text())
    for cell in [] if options.report else chosen_cells(options):
        found = [old for old in report["cells"] if same(old, cell)]
        if found and not options.again:
            continue
        print(f"{cell['name']} {cell['mode']}", flush=True)
        cell |= measure(cell, options)
        report["cells"] = [c for c in report["cells"] if not same(c, cell)]
        report["cells"].append(cell)
        report |= environment()
        write(options.output, json.dumps(report, indent=1) + "\n")
    speed_report.write_report(report, options.document, options.images)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true", help="tiny model")
    size.add_argument("--full", action="store_true", help="all cells")
    size.add_argument("--report", action="store_true", help="measure nothing")
    names = [name for name in CONFIGS if name != "tiny"]
    parser.add_argument("--configs", nargs="*", default=names, choices=CONFIGS)
    modes = ["train", "eval", "generate"]
    parser.add_argument("--modes", nargs="+", default=modes, choices=modes)
    parser.add_argument("--sweeps", nargs="*", default=list(SWEEPS))
    parser.add_argument("--variants", nargs="+", default=VARIANTS)
    parser.add_argument("--peers", type=Path, help="script of the peers")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--peers-tensorflow-python")
    parser.add_argument("--peer-names", nargs="+", default=PEERS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument(
        "--start-limit", type=float, default=400, help="seconds to compile"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dtype", help="Keras policy, mixed_bfloat16")
    parser.add_argument(
        "--accelerator", action="store_true", help="do not hide GPUs"
    )
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    docs = HERE.parent / "docs"
    parser.add_argument("--document", default=docs / "performance.md")
    parser.add_argument("--images", type=Path, default=docs / "images")
    options = parser.parse_args()
    options.document = Path(options.document)
    if options.quick:
        options.configs, options.sweeps = ["tiny"], []
        options.rounds, options.seconds = 1, 0.1
    return options


def chosen_cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Configurations with all implementations, sweeps with ours alone."""
    cells = []
    names = [*options.variants, *BOUNDS[: 1 if options.quick else None]]
    for name in options.configs:
        for mode in options.modes:
            config = {**CONFIGS[name], "dtype": options.dtype}
            peers = options.peer_names if options.peers else []
            if mode != "generate":
                peers = [peer for peer in peers if peer != GENERATION_ONLY]
            cells.append(cell_of(name, mode, config, [*names, *peers]))
    for axis in options.sweeps:
        sweep = SWEEPS[axis]
        for value in sweep["values"]:
            config = {**CONFIGS[sweep["config"]], "dtype": options.dtype}
            config |= {key: value for key in sweep["keys"]}
            config["n_head"] = config["d_model"] // config["d_head"]
            config["d_inner"] = 4 * config["d_model"]
            cell = cell_of(
                f"{sweep['config']} {axis}={value}",
                sweep["mode"],
                config,
                [*options.variants, *BOUNDS[:2]],
            )
            cells.append({**cell, "axis": axis, "value": value})
    return cells


def cell_of(
    name: str, mode: str, config: dict[str, Any], implementations: list[str]
) -> dict[str, Any]:
    """What is to be measured."""
    return {
        "name": name,
        "mode": mode,
        "config": config,
        "implementations": implementations,
    }


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two cells are of one configuration and mode."""
    keys = ("name", "mode", "config")
    return all(one[key] == other[key] for key in keys)


def measure(
    cell: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Let all implementations of a cell take turns."""
    commands = {
        name: command_of(name, cell, options)
        for name in cell["implementations"]
    }
    rows = take_turns(commands, options)
    summarize(rows, cell)
    return {"date": datetime.now(UTC).isoformat(), "rows": rows}


def take_turns(
    commands: dict[str, list[str]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Bursts of all in turns, each in a process that waits for its own.

    Args:
        commands: what starts each worker, by name.
        options: of the command line. With `pause`, a line of standard input
            starts the turns.

    Returns:
        A row for each: `name`, what the worker said when it was ready,
        `bursts`, `step_s` (the median of theirs), `peak_rss_mb`; or `error`.
    """
    workers, rows = [], []
    for name, command in commands.items():
        row: dict[str, Any] = {"name": name}
        rows.append(row)
        worker = Worker(command, options)
        ready = worker.answer(options.start_limit)
        if ready is None:
            row["error"] = worker.last_words()
            print(f"  {name}: {row['error']}", flush=True)
            continue
        print(f"  {name} is ready", file=sys.stderr, flush=True)
        row |= {**ready, "bursts": []}
        workers.append((worker, row))
    if getattr(options, "pause", False):
        print("  all are ready: Enter", file=sys.stderr, flush=True)
        sys.stdin.readline()
    for _ in range(options.rounds):
        for worker, row in workers:
            burst = worker.burst(options.seconds)
            if burst is not None:
                row["bursts"].append(burst)
    for worker, row in workers:
        row |= worker.close()
        if row["bursts"]:
            steps = [burst["step"] for burst in row["bursts"]]
            row["step_s"] = statistics.median(steps)
        else:
            row["error"] = worker.last_words()
    return rows


def command_of(
    name: str, cell: dict[str, Any], options: argparse.Namespace
) -> list[str]:
    """What starts an implementation: a worker of ours or of the peers."""
    script, python = HERE / "speed_worker.py", sys.executable
    if not name.startswith(("keras_txl", "product")):
        script, python = options.peers, options.peers_python
        if name in TENSORFLOW_PEERS:
            python = options.peers_tensorflow_python or "python"
    return [
        *(python, str(script), "worker", "--peer", name),
        *("--mode", cell["mode"], "--threads", str(options.threads)),
        *("--cfg", json.dumps({"dropout": 0.0, **cell["config"]})),
    ]


def summarize(rows: list[dict[str, Any]], cell: dict[str, Any]) -> None:
    """Medians, tokens a second and the share of the machine's rate."""
    needed = flops(cell["config"], cell["mode"])
    for row in rows:
        if "error" in row:
            continue
        if row.get("flops"):
            row["gflops"] = row["flops"] / row["step_s"] / 1e9
        else:
            row["tokens_per_s"] = row["tokens_per_step"] / row["step_s"]
    best = max((row.get("gflops", 0) for row in rows), default=0)
    for row in rows:
        if best and "tokens_per_s" in row and cell["mode"] != "generate":
            rate = needed / row["step_s"] / 1e9
            row["share_of_product"] = rate / best
        if "step_s" in row:
            print(
                f"  {row['name']}: {row['step_s'] * 1e3:.2f} ms, "
                f"{row.get('tokens_per_s', 0):.0f} tokens/s, "
                f"{row.get('share_of_product', 0):.0%}",
                flush=True,
            )


class Worker:
    """A process that answers each line of its input with a line of JSON.

    Args:
        command: that starts it.
        options: of the command line.
    """

    def __init__(self, command: list[str], options: argparse.Namespace) -> None:
        threads = str(options.threads)
        environ = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "PEER_THREADS": threads,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environ.pop(name, None)  # every library its best kernels
        if not options.accelerator:
            environ["CUDA_VISIBLE_DEVICES"] = "-1"
        self.errors: Any = tempfile.TemporaryFile("w+", errors="replace")
        self.process: Any = None
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                env=environ,
                text=True,
                bufsize=1,
            )
        except OSError as error:
            self.errors.write(f"{error}\n")

    def answer(self, limit: float) -> dict[str, Any] | None:
        """The next line that starts with @@, `None` if it does not come."""
        end = time.monotonic() + limit
        while self.process is not None and time.monotonic() < end:
            if not select.select([self.process.stdout], [], [], 1.0)[0]:
                continue
            line = self.process.stdout.readline()
            if not line:
                break
            if line.startswith("@@"):
                found: dict[str, Any] = json.loads(line[2:])
                return found
        if self.process is not None:
            self.process.kill()
        return None

    def burst(self, seconds: float) -> dict[str, Any] | None:
        """Let it work for some seconds."""
        try:
            self.process.stdin.write(f"{seconds}\n")
        except OSError:
            return None
        return self.answer(seconds + 400)

    def close(self) -> dict[str, Any]:
        """Peak memory of the process, which ends, and what it said."""
        try:
            self.process.stdin.write("quit\n")
        except OSError:
            return {}
        last = self.answer(60) or {}
        self.process.kill()
        self.process.wait()
        peak = {"peak_rss_mb": last.get("rss_mb")}
        return peak | ({"said": last["said"]} if last.get("said") else {})

    def last_words(self) -> str:
        """The last line of its log."""
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1][:300] if lines else "no answer"


def environment() -> dict[str, Any]:
    """Commit, versions and machine; Keras stays out of this process."""
    code = "import json, harness; print(json.dumps(harness.environment()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=HERE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(path: Path, text: str) -> None:
    """Write beside the file, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(text)
    temporary.replace(path)


if __name__ == "__main__":
    main()
