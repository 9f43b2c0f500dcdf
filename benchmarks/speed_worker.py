"""A process of `run.py`: builds one implementation and works in bursts.

It prints a line of JSON behind `@@` when it is ready, one for each number of
seconds that it reads, and one at `quit`.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time
from typing import Any

import numpy as np
from decoding_bound import Bound
from peers_plugin import KerasTXL
from speed_configs import token_weights

WARM_UP = 3


def main() -> None:
    """Answer until `quit`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["worker"])
    parser.add_argument("--peer", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--cfg", type=json.loads, required=True)
    parser.add_argument("--threads")
    options = parser.parse_args()
    config = {**options.cfg, "data": lambda: segments(options.cfg)}
    begin = time.perf_counter()
    kind, _, variant = options.peer.partition("_")
    if kind == "product":
        subject: Any = MatrixProduct(variant)
    elif kind == "bound":
        subject = GenerationBound(options.cfg)
    elif kind == "edge":
        from edge_subjects import SUBJECTS

        config = {**options.cfg, "threads": options.threads or 0}
        subject = SUBJECTS[variant](config)
    else:
        variant = options.peer.removeprefix("keras_txl_")
        subject = KerasTXL(config, options.mode, variant)
    built = time.perf_counter()
    subject.step()
    compiled = time.perf_counter()
    for _ in range(WARM_UP):
        subject.step()
    say(
        version=subject.version,
        n_params=subject.n_params,
        flops=getattr(subject, "flops", None),
        tokens_per_step=subject.tokens_per_step,
        build_s=round(built - begin, 2),
        compile_s=round(compiled - built, 2),
    )
    for line in sys.stdin:
        if line.startswith("quit"):
            break
        say(**burst(subject.step, float(line)))
    say(rss_mb=peak_megabytes(), said=getattr(subject, "said", None))


def peak_megabytes() -> float:
    """Largest size of this process: Linux's `ru_maxrss` has its parent's."""
    try:
        with open("/proc/self/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        return round(int(fields["VmHWM"].split()[0]) / 1024, 1)
    except (OSError, KeyError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(peak / 1024, 1)


def burst(step: Any, seconds: float) -> dict[str, Any]:
    """All steps of some seconds, at least two."""
    samples: list[float] = []
    before, cpu = busy_seconds(), time.process_time()
    begin = time.perf_counter()
    while len(samples) < 2 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        samples.append(round(time.perf_counter() - start, 6))
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    foreign = (busy_seconds() - before - cpu) / wall
    return {
        "samples": samples,
        "step": statistics.median(samples),
        "cpu": cpu,
        "foreign": max(0.0, foreign),
        "resident_mb": resident_megabytes(),
    }


def resident_megabytes() -> float | None:
    """Memory of this process now."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return None
    return round(pages * resource.getpagesize() / 2**20, 2)


def busy_seconds() -> float:
    """Processor time that the whole machine has spent."""
    try:
        with open("/proc/stat") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
    except OSError:
        return 0.0
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def segments(config: dict[str, Any]) -> Any:
    """int64 ids (steps, batch, T + 1), by Zipf's law."""
    shape = (32, config["batch"], config["tgt_len"] + 1)
    return np.random.default_rng(0).choice(
        config["vocab"], size=shape, p=token_weights(config["vocab"])
    )


class GenerationBound:
    """What a generated token of each row needs at least, see `Bound`."""

    n_params, version = 0, f"numpy {np.__version__}"

    def __init__(self, config: dict[str, Any]) -> None:
        params = {
            "num_layers": config["n_layer"],
            "hidden_dim": config["d_model"],
            "memory_length": config["mem_len"],
            "batch_size": config["batch"],
        }
        self.step = Bound(params, config["vocab"]).read_once
        self.tokens_per_step = config["batch"]


class MatrixProduct:
    """The machine's own rate: a product of two square matrices, float32.

    Args:
        library: `"numpy"`, `"tensorflow"`, `"torch"` or `"jax"`.
    """

    n_params = tokens_per_step = 0

    def __init__(self, library: str, size: int = 2048) -> None:
        generator = np.random.default_rng(0)
        a, b = generator.standard_normal((2, size, size), dtype="float32")
        self.flops = 2.0 * size**3
        self.version = library
        self.step = getattr(self, f"on_{library}")(a, b)

    def on_numpy(self, a: Any, b: Any) -> Any:
        return lambda: a @ b

    def on_tensorflow(self, a: Any, b: Any) -> Any:
        import tensorflow as tf

        product = tf.function(lambda a, b: tf.matmul(a, b)[:1, :1])
        a, b = tf.constant(a), tf.constant(b)
        return lambda: product(a, b).numpy()

    def on_torch(self, a: Any, b: Any) -> Any:
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        a, b = torch.from_numpy(a).to(device), torch.from_numpy(b).to(device)
        return lambda: (a @ b)[0, 0].item()

    def on_jax(self, a: Any, b: Any) -> Any:
        import jax

        a, b = jax.numpy.asarray(a), jax.numpy.asarray(b)
        product = jax.jit(jax.numpy.matmul)
        return lambda: product(a, b).block_until_ready()


def say(**answer: Any) -> None:
    """One line for `run.py`."""
    print("@@" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
