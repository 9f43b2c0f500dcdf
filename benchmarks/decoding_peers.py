"""Generated tokens of every implementation, in turns with ours and the bound.

Each works in a process of its own (`run.py`), behind a full memory, and has
built, compiled and warmed up before the first turn.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from run import HERE
from run import take_turns
from speed_configs import TENSORFLOW_PEERS

PEERS = [
    "hf_transfoxl",
    "x_transformers",
    "x_transformers_rotary_flash",
    "x_transformers_kvcache",
    *TENSORFLOW_PEERS,
]
OURS = ("keras_txl", "bound", "edge")
"""How the names of `speed_worker.py` begin."""

SEGMENT_LENGTH = 128  # in which peers read; one of them keeps keys within it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the turns."""
    parser.add_argument("--peers", type=Path, help="script of the peers")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--tf-python", help="for peers on TensorFlow")
    parser.add_argument(
        "--peer-names",
        nargs="+",
        default=PEERS,
        help="without --tf-python, those on TensorFlow are left out",
    )
    parser.add_argument(
        "--peer-backends",
        nargs="+",
        default=["tensorflow", "jax", "torch"],
        help="streams of ours that take turns with the peers",
    )
    parser.add_argument(
        "--pause",
        action="store_true",
        help="wait for Enter before the turns, to leave the machine alone",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--start-limit", type=float, default=400, help="seconds to compile"
    )
    parser.add_argument(
        "--accelerator", action="store_true", help="do not hide GPUs"
    )


def run_peers(
    params: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row for each implementation: tokens a second and every burst.

    Args:
        params: of the cell.
        options: of `add_arguments`, and `vocabulary_size`.
    """
    config = config_of(params, options.vocabulary_size)
    names = ["bound", *(f"keras_txl_{name}" for name in options.peer_backends)]
    for name in options.peer_names if options.peers else []:
        if name not in TENSORFLOW_PEERS or options.tf_python:
            names.append(name)
    commands = {name: command_of(name, config, options) for name in names}
    rows = take_turns(commands, options)
    for row in rows:
        row["peer"] = row.pop("name")
        if "error" not in row:
            rate = row["tokens_per_step"] / row["step_s"]
            row["tokens_per_s"] = round(rate, 2)
    return rows


def config_of(params: dict[str, Any], vocabulary_size: int) -> dict[str, Any]:
    """A cell in the words of the workers."""
    width = params["hidden_dim"]
    return {
        "batch": params["batch_size"],
        "rows": params["batch_size"],
        "mem_len": params["memory_length"],
        "n_layer": params["num_layers"],
        "d_model": width,
        "n_head": max(1, width // 64),
        "d_head": min(64, width),
        "d_inner": 4 * width,
        "vocab": vocabulary_size,
        "tgt_len": SEGMENT_LENGTH,
        "cutoffs": [],
        "dropout": 0.0,
    }


def command_of(
    name: str, config: dict[str, Any], options: argparse.Namespace
) -> list[str]:
    """What starts a worker, ours or that of the script of the peers."""
    python, script, more = sys.executable, HERE / "speed_worker.py", []
    if not name.startswith(OURS):
        python, script = options.peers_python, options.peers
        more = ["--plugin", str(HERE / "peers_plugin.py")]
        if name in TENSORFLOW_PEERS:
            python = options.tf_python
        if name not in TENSORFLOW_PEERS or config["batch"] > 1:
            name += "_rows"
    return [
        *(python, str(script), "worker", "--peer", name, *more),
        *("--mode", "generate", "--threads", str(options.threads)),
        *("--cfg", json.dumps(config)),
    ]
