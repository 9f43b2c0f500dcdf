"""Time of one training step and one evaluation step, memory carried.

    python benchmarks/bench_training.py            # about five minutes
    python benchmarks/bench_training.py --quick    # only to see that it runs

`KERAS_BACKEND` chooses the backend. A sample is one `train_on_batch` or
`test_on_batch`, host to device and loss back to host included; the loss comes
back as a number, so the device is done when it returns. Building, compiling
and the first step are timed apart.
"""

from typing import Any

import harness
import keras
import numpy as np

import keras_txl

VOCABULARY_SIZE = 256
NUM_BATCHES = 8


class OneStep:
    """Common parameters and set-up; a step reads the next segment."""

    params: tuple[list[Any], ...] = (
        [16],
        [64, 128],
        [128, 256],
        ["float32", "mixed_bfloat16"],
    )
    param_names = ["batch_size", "segment_length", "hidden_dim", "dtype"]

    def setup(
        self, batch_size: int, segment_length: int, hidden_dim: int, dtype: str
    ) -> None:
        keras.utils.set_random_seed(0)
        backbone = keras_txl.models.TransformerXLBackbone(
            vocabulary_size=VOCABULARY_SIZE,
            num_layers=4,
            num_heads=4,
            hidden_dim=hidden_dim,
            intermediate_dim=4 * hidden_dim,
            memory_length=segment_length,
            batch_size=batch_size,
            dropout=0.0,
            dtype=dtype,
        )
        self.lm = keras_txl.models.TransformerXLCausalLM(backbone)
        self.lm.compile(optimizer="adam", weighted_metrics=None)
        tokens = batch_size * segment_length * NUM_BATCHES + 1
        ids = np.random.default_rng(0).integers(0, VOCABULARY_SIZE, tokens)
        stream = keras_txl.data.SegmentStream(
            ids, batch_size=batch_size, segment_length=segment_length
        )
        self.batches = list(stream)
        self.steps = 0

    def next_batch(self) -> Any:
        self.steps += 1
        return self.batches[self.steps % len(self.batches)]


class TrainingStep(OneStep):
    def time_training_step(self, *params: Any) -> None:
        self.lm.train_on_batch(*self.next_batch())


class EvaluationStep(OneStep):
    def time_evaluation_step(self, *params: Any) -> None:
        self.lm.test_on_batch(*self.next_batch())


if __name__ == "__main__":
    harness.main("training", [TrainingStep, EvaluationStep])
