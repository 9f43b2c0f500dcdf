"""Time of a token in exported files, against Keras, peers and the bound.

    python benchmarks/bench_edge.py            # 12 layers, D = 512, M = 512
    python benchmarks/bench_edge.py --quick    # only to see that it runs
    python benchmarks/bench_edge.py --model my_model --text held_out.txt

One row, one token a call. Each file in each runtime, `generate_stream` of
Keras, with `--peers` other implementations, and the bound (weights, keys and
values read once a token, by NumPy and by ONNX Runtime) have a process of their
own (`run.py`) and read the same prompt, which fills the memory. They take
turns in bursts, in which all others wait. The ring then runs alone, `--tokens`
tokens, its time and the memory of its process by part.

With `--model` and `--text` a trained model is exported exactly, in int8 and in
fp16; bits per byte on the text are compared, and the time of a token in turns.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import threading
from datetime import UTC
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import harness
import numpy as np
from bench_decoding import make_model
from decoding_peers import add_arguments
from decoding_peers import command_of
from decoding_peers import config_of
from edge_subjects import prompt_of
from run import HERE
from run import Worker
from run import take_turns

import keras_txl

EDGE = HERE.parent / "export" / "edge"
BOUNDS = ["bound", "edge_bound"]
CANDIDATES = {
    "hidden float32": "hidden",
    "kv float32": "kv",
    "kv_ring float32": "kv_ring",
    "hidden int8": "hidden",
    "kv_ring int8": "kv_ring",
    "kv_ring fp16": "kv_ring",
    "kv float32 GenAI": "genai",
    "hidden float32 OpenVINO": "openvino",
    "hidden float32 LiteRT": "litert",
    "kv_ring float32 Node.js": "node",
    "kv_ring int8 Node.js": "node",
    "kv_ring float32 Chromium": "chromium",
    "kv_ring int8 Chromium": "chromium",
}
"""Flavour, weights and runtime, and who runs them: see `edge_subjects.py`."""
RING = "kv_ring float32"


def main() -> None:
    """Export, measure, write the results."""
    options = parse_arguments()
    report: dict[str, Any] = {
        **harness.environment(),
        "date": datetime.now(UTC).isoformat(),
    }
    with tempfile.TemporaryDirectory() as scratch:
        options.folder = options.folder or Path(scratch)
        report |= quality(options) if options.model else speed(options)
    kind = "quality" if options.model else "speed"
    path = options.output or harness.RESULTS / f"edge-{kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report) + "\n")
    print(f"wrote {path}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, number in (
        ("num-layers", 12),
        ("hidden-dim", 512),
        ("memory-length", 512),
        ("vocabulary-size", 204),
        ("tokens", 10_000),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--model", help="preset folder of a trained byte model")
    parser.add_argument("--text", type=Path, help="held-out text")
    parser.add_argument("--bytes", type=int, default=20_000, help="of the text")
    parser.add_argument(
        "--candidates", nargs="*", choices=CANDIDATES, default=[*CANDIDATES]
    )
    parser.add_argument(
        "--folder", type=Path, help="keeps the exported files, for another run"
    )
    parser.add_argument(
        "--node-modules", type=Path, default=EDGE / "javascript/node_modules"
    )
    add_arguments(parser)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true", help="tiny model")
    parser.set_defaults(
        peer_names=["hf_transfoxl"], peer_backends=["tensorflow"]
    )
    options = parser.parse_args()
    if (options.model is None) != (options.text is None):
        parser.error("--model and --text go together")
    if options.quick:
        options.num_layers, options.hidden_dim = 1, 64
        options.memory_length, options.tokens = 16, 200
        options.rounds, options.seconds = 2, 0.1
        options.candidates = [RING]
    return options


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """All candidates in turns; the long run of the ring."""
    params = {
        "num_layers": options.num_layers,
        "hidden_dim": options.hidden_dim,
        "memory_length": options.memory_length,
        "batch_size": 1,
    }
    config = config_of(params, options.vocabulary_size)
    lm = make_model(params, options.vocabulary_size)
    others = [f"keras_txl_{name}" for name in options.peer_backends]
    others += options.peer_names if options.peers else []
    commands = {
        name: command_of(name, config, options) for name in [*BOUNDS, *others]
    }
    commands |= {
        name: candidate(name, lm, config, options)
        for name in options.candidates
    }
    rows = take_turns(commands, options)
    for row in rows:
        if row["name"] in CANDIDATES:
            row["bytes"] = size_of(folder_of(row["name"], options))
    compare_tokens(rows)
    found = {"params": params, "rows": [timed(row, rows) for row in rows]}
    if RING in commands:
        found["long_run"] = long_run(commands[RING], options)
    return found


def candidate(
    name: str, lm: Any, config: dict[str, Any], options: argparse.Namespace
) -> list[str]:
    """Export a file, unless it is there, and say what runs it."""
    flavour, weights, *_ = name.split()
    runtime, folder = CANDIDATES[name], folder_of(name, options)
    if folder.exists():
        pass
    elif runtime == "litert":
        keras_txl.export.export_litert(lm, folder)
    else:
        quantize = None if weights == "float32" else weights
        keras_txl.export.export_onnx(lm, folder, flavour, quantize=quantize)
    config = {**config, "folder": str(folder)}
    if runtime not in ("node", "chromium"):
        return command_of(f"edge_{runtime}", config, options)
    packages = Path(os.environ.get("EDGE_NODE_MODULES", options.node_modules))
    told = {
        "runtime": runtime,
        "folder": str(folder),
        "driver": str(EDGE / "javascript" / "transformer_xl.mjs"),
        "packages": str(packages.absolute()),
        "threads": options.threads,
        "prompt": prompt_of(config),
    }
    if runtime == "chromium":
        told["address"] = serve(folder, packages, options.folder)
    return ["node", str(HERE / "edge_worker.mjs"), json.dumps(told)]


def folder_of(name: str, options: argparse.Namespace) -> Path:
    """Where the file of a candidate is."""
    flavour, weights, *_ = name.split()
    if CANDIDATES[name] == "litert":
        flavour = "litert"
    folder: Path = options.folder / f"{flavour}-{weights}"
    return folder


def serve(folder: Path, packages: Path, sites: Path) -> str:
    """The address of a site with the model, the driver and the runtime."""
    sys.path.append(str(EDGE / "browser"))
    make_site: Any = import_module("make_site")
    site = sites / f"site-{folder.name}"
    make_site.make_site(folder, site, packages)
    (site / "edge_stream.mjs").write_bytes(
        (HERE / "edge_stream.mjs").read_bytes()
    )
    server = make_site.make_server(site, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def compare_tokens(rows: list[dict[str, Any]]) -> None:
    """How many tokens of each are those of the ring, in place of the ids."""
    said = {row["name"]: row.pop("said", None) for row in rows}
    for row in rows:
        pairs = zip(said[row["name"]] or [], said.get(RING) or [], strict=False)
        equal = [one == other for one, other in pairs]
        if equal and row["name"] != RING:
            row["tokens_compared"] = len(equal)
            row["tokens_equal"] = [*equal, False].index(False)


def timed(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A row with the time of a token, which is printed."""
    if "error" in row:
        print(f"{row['name']:>24}: {row['error']}", flush=True)
        return row
    row["token_s"] = row["step_s"] / row["tokens_per_step"]
    bound = min(r.get("step_s", 1e9) for r in rows if r["name"] in BOUNDS)
    print(
        f"{row['name']:>24}: {row['token_s'] * 1e3:7.2f} ms a token, "
        f"{1 / row['token_s']:6.1f} tokens/s, "
        f"{bound / row['token_s']:4.0%} of the bound, "
        f"{row['peak_rss_mb'] or 0:5.0f} MB, tokens "
        f"{row.get('tokens_equal')}/{row.get('tokens_compared')}",
        flush=True,
    )
    return row


def size_of(folder: Path) -> int:
    """Bytes of the model alone."""
    files = keras_txl.export.read_manifest(folder)["files"]
    return sum(
        told["bytes"]
        for name, told in files.items()
        if name.startswith(("model.onnx", "model.tflite"))
    )


def long_run(
    command: list[str], options: argparse.Namespace
) -> list[dict[str, float]]:
    """Seconds a token and MB of the process, part by part."""
    worker = Worker(command, options)
    rows: list[dict[str, float]] = []
    ready, done = worker.answer(options.start_limit), 0
    while ready and done < options.tokens:
        burst = worker.burst(2 * options.seconds)
        if burst is None:
            break
        done += len(burst["samples"])
        rows.append(
            {
                "tokens": done,
                "token_s": burst["step"],
                "resident_mb": burst["resident_mb"],
                "foreign": burst["foreign"],
            }
        )
    worker.close()
    print(f"long run: {rows[0]} to {rows[-1]}", flush=True)
    return rows


def quality(options: argparse.Namespace) -> dict[str, Any]:
    """Bits per byte of a trained model, size and time of its files."""
    lm = keras_txl.models.TransformerXLCausalLM.from_preset(options.model)
    backbone = lm.backbone
    params = {
        "num_layers": backbone.num_layers,
        "hidden_dim": backbone.hidden_dim,
        "memory_length": backbone.memory_length,
        "batch_size": 1,
    }
    config = config_of(params, backbone.vocabulary_size)
    data = options.text.read_bytes()[: options.bytes]
    ids = np.frombuffer(data, "uint8").astype("int32")[None]
    names = [f"kv_ring {weights}" for weights in ("float32", "int8", "fp16")]
    commands = {name: candidate(name, lm, config, options) for name in names}
    rows = take_turns(commands, options)
    for row in rows:
        folder = folder_of(row["name"], options)
        row.pop("said", None)
        for burst in row["bursts"]:  # of thousands of samples
            samples = burst.pop("samples")
            burst["count"] = len(samples)
            burst["quartiles"] = statistics.quantiles(samples, n=4)
        row["bytes"] = size_of(folder)
        row["bits_per_byte"] = bits_per_byte(folder, ids)
        row["token_s"] = row["step_s"]
        told = {k: row[k] for k in ("bytes", "bits_per_byte", "token_s")}
        print(f"{row['name']}: {told}", flush=True)
    return {"params": params, "rows": rows, "text_bytes": len(data)}


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
