"""Memory of the process over a long `fit`: flat, or so many kB a step?

    python benchmarks/bench_process_memory.py            # 2,000 steps
    python benchmarks/bench_process_memory.py --quick    # only to see it runs

`KERAS_BACKEND` chooses the backend. The resident size is read after every
step; nothing of the run grows with it but what may leak. The slope is that of
the straight line of least squares through the second half of the steps, when
the allocators have settled.
"""

import argparse
import json
import os
import sys
from datetime import UTC
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
import keras
import numpy as np

import keras_txl

STEPS = 2000
STEPS_PER_EPOCH = 100
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_kilobytes() -> float:
    """Resident size of this process (Linux), in kB of 1,000 bytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * PAGE / 1000


class ResidentSize(keras.callbacks.Callback):
    """Reads the resident size after every step."""

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        # Made at once, so that keeping the samples takes no more memory.
        self.samples = np.zeros(num_steps)
        self.count = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.samples[self.count] = resident_kilobytes()
        self.count += 1


def slope(samples: np.ndarray) -> float:
    """Growth a step over the second half of the samples."""
    half = samples[len(samples) // 2 :]
    return float(np.polyfit(np.arange(len(half)), half, 1)[0])


def measure(num_steps: int) -> np.ndarray:
    """Resident size after each step of a `fit` with memory, validated."""
    keras.utils.set_random_seed(0)
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        memory_length=32,
        batch_size=4,
        dropout=0.1,
    )
    lm = keras_txl.models.TransformerXLCausalLM(backbone)
    lm.compile(optimizer="adam")
    ids = np.random.default_rng(0).integers(0, 256, 4 * 32 * 50 + 1)
    stream = keras_txl.data.SegmentStream(ids, 4, 32)
    sizes = ResidentSize(num_steps)
    lm.fit(
        stream.repeat(),
        steps_per_epoch=min(STEPS_PER_EPOCH, num_steps),
        epochs=max(1, num_steps // STEPS_PER_EPOCH),
        validation_data=keras_txl.data.SegmentStream(ids[:257], 4, 32),
        callbacks=[sizes],
        verbose=0,
    )
    return sizes.samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--steps", type=int, default=STEPS, help=f"steps (default {STEPS:,})"
    )
    parser.add_argument("--quick", action="store_true", help="20 steps")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    num_steps = 20 if arguments.quick else arguments.steps
    samples = measure(num_steps)
    report = {
        **harness.environment(),
        "date": datetime.now(UTC).isoformat(),
        "steps": num_steps,
        "unit": "kB",
        "slope_per_step": slope(samples),
        "samples": samples[:: max(1, num_steps // 200)].tolist(),
    }
    path = arguments.output or (
        harness.RESULTS / f"process-memory-{keras.backend.backend()}.json"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"{num_steps} steps: {samples[num_steps // 2] / 1000:.1f} MB half way, "
        f"{samples[-1] / 1000:.1f} MB at the end, "
        f"{report['slope_per_step']:+.3f} kB a step"
    )
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
