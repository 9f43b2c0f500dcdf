"""Time and memory of one training step with 267,735 tokens, by kind of loss.

    python benchmarks/bench_softmax.py            # about five minutes
    python benchmarks/bench_softmax.py --quick    # only to see that it runs

`KERAS_BACKEND` chooses the backend. Ids are log-uniform, so that a fifth of
the targets lies in the tails. A sample is one `train_on_batch`, the loss back
on the host; memory is the peak of a process that makes two steps.
"""

from typing import Any

import harness
import keras
import numpy as np

import keras_txl

VOCABULARY_SIZE = 267_735
CUTOFFS = [20_000, 40_000, 200_000]
HEADS: dict[str, dict[str, Any]] = {
    "dense": {},
    "chunked": {"loss_chunk": 64},
    "sampled": {"num_sampled": 8192},
    "adaptive": {"cutoffs": CUTOFFS},
    "adaptive_div4": {"cutoffs": CUTOFFS, "div_val": 4},
}


class LargeVocabulary:
    """One layer of width 128; nearly all work is in the softmax."""

    params: tuple[list[Any], ...] = (list(HEADS), [8], [64])
    param_names = ["head", "batch_size", "segment_length"]

    def setup(self, head: str, batch_size: int, segment_length: int) -> None:
        keras.utils.set_random_seed(0)
        backbone = keras_txl.models.TransformerXLBackbone(
            vocabulary_size=VOCABULARY_SIZE,
            num_layers=1,
            num_heads=2,
            hidden_dim=128,
            intermediate_dim=256,
            memory_length=segment_length,
            batch_size=batch_size,
            dropout=0.0,
            **HEADS[head],
        )
        self.lm = keras_txl.models.TransformerXLCausalLM(backbone)
        self.lm.compile(
            optimizer=keras.optimizers.SGD(0.1), weighted_metrics=None
        )
        uniform = np.random.default_rng(0).uniform(
            size=batch_size * segment_length + 1
        )
        ids = np.exp(uniform * np.log(VOCABULARY_SIZE)).astype("int32")
        stream = keras_txl.data.SegmentStream(
            ids, batch_size=batch_size, segment_length=segment_length
        )
        self.batch = stream[0]

    def time_training_step(self, *params: Any) -> None:
        self.lm.train_on_batch(*self.batch)

    def peakmem_training_step(self, *params: Any) -> None:
        for _ in range(2):
            self.lm.train_on_batch(*self.batch)


if __name__ == "__main__":
    harness.main("softmax", [LargeVocabulary])
