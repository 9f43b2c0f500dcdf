"""Cost of evaluating a token: with memory, and with its window recomputed.

    python benchmarks/bench_evaluation.py            # about five minutes
    python benchmarks/bench_evaluation.py --quick    # only to see that it runs
    python benchmarks/bench_evaluation.py --param num_layers=24 \\
        --param hidden_dim=1024 --param attention_length=3800

`KERAS_BACKEND` chooses the backend. The claim of the paper (4.3, and the
table of evaluation times in its appendix): a model without memory that is to
see N tokens before each prediction runs a window of N tokens for every token,
one with memory reads a segment once. Both are one model here, with the same
weights, through `token_losses`, batch 1. A sample of `WithMemory` reads
`segment_length` tokens with a full memory of N; a sample of `Recomputed` runs
one window of N tokens, which is the cost of one token. Losses come back to
the host, so the device is done.
"""

import statistics
from typing import Any

import harness
import keras
import numpy as np
from keras import ops

import keras_txl

VOCABULARY_SIZE = 256
PUBLISHED_SPEED_UPS = {800: 363, 1800: 773, 2800: 1409, 3800: 1874}
"""By attention length, on one GPU, against Al-Rfou et al. (2018)."""


class OneModel:
    """The 12-layer model of enwik8; the released code reads 128 tokens."""

    params: tuple[list[Any], ...] = (
        [800, 1800, 2800, 3800],
        [12],
        [512],
        [128],
    )
    param_names = [
        "attention_length",
        "num_layers",
        "hidden_dim",
        "segment_length",
    ]
    repeat = 3

    def setup(
        self,
        attention_length: int,
        num_layers: int,
        hidden_dim: int,
        segment_length: int,
    ) -> None:
        keras.utils.set_random_seed(0)
        backbone = keras_txl.models.TransformerXLBackbone(
            vocabulary_size=VOCABULARY_SIZE,
            num_layers=num_layers,
            num_heads=max(hidden_dim // 64, 1),
            hidden_dim=hidden_dim,
            intermediate_dim=4 * hidden_dim,
            memory_length=attention_length,
            dropout=0.0,
        )
        self.lm = keras_txl.models.TransformerXLCausalLM(backbone)
        self.rng = np.random.default_rng(0)

    def read(self, length: int, memory: Any) -> Any:
        """Token losses `(1, length)` on the host, and the new memory."""
        ids = self.rng.integers(0, VOCABULARY_SIZE, (1, length + 1))
        losses, memory = self.lm.token_losses(ids[:, :-1], ids[:, 1:], memory)
        return ops.convert_to_numpy(losses), memory


class WithMemory(OneModel):
    repeat = 10

    def setup(self, *params: Any) -> None:
        super().setup(*params)
        memory = self.lm.initial_memory(1)
        shape = tuple(memory["states"].shape)
        states = self.rng.normal(size=shape).astype("float32")
        self.memory = {
            "states": ops.convert_to_tensor(states),
            "length": ops.full((1,), shape[2], dtype="int32"),
            "document": ops.zeros((1,), dtype="int32"),
        }

    def time_segment(self, *params: Any) -> None:
        _, self.memory = self.read(params[-1], self.memory)


class Recomputed(OneModel):
    def setup(self, *params: Any) -> None:
        super().setup(*params)
        self.memory = self.lm.initial_memory(1, memory_length=0)

    def time_token(self, *params: Any) -> None:
        self.read(params[0], self.memory)


def speed_ups(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Milliseconds of a token both ways, and how many times faster it is."""
    medians = {
        (cell["benchmark"].partition(".")[0], *cell["params"].values()): (
            statistics.median(cell["samples"])
        )
        for cell in cells
        if "error" not in cell
    }
    rows = []
    for (name, *params), seconds in medians.items():
        if name != "Recomputed" or ("WithMemory", *params) not in medians:
            continue
        per_token = medians["WithMemory", *params] / params[-1]
        row = {
            **dict(zip(OneModel.param_names, params, strict=True)),
            "with_memory_ms": per_token * 1e3,
            "recomputed_ms": seconds * 1e3,
            "speed_up": seconds / per_token,
            "published_speed_up": PUBLISHED_SPEED_UPS.get(params[0]),
        }
        print(
            f"attention length {row['attention_length']}: "
            f"{row['with_memory_ms']:.2f} ms a token with memory, "
            f"{row['recomputed_ms']:.1f} ms recomputed, "
            f"{row['speed_up']:.0f} times faster "
            f"(published: {row['published_speed_up']})"
        )
        rows.append(row)
    return {"speed_ups": rows}


if __name__ == "__main__":
    harness.main("evaluation", [WithMemory, Recomputed], speed_ups)
