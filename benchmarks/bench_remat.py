"""Memory and time of one training step with and without `remat`.

    python benchmarks/bench_remat.py            # about three minutes
    python benchmarks/bench_remat.py --quick    # only to see that it runs

`KERAS_BACKEND` chooses the backend. A sample is one `train_on_batch`, the loss
back on the host; memory is the peak of a process that makes two steps.
"""

from typing import Any

import harness
import keras
import numpy as np

import keras_txl


class Rematerialization:
    """Byte-level model of width 256 whose segments are as long as memory."""

    params: tuple[list[Any], ...] = ([False, True], [8], [256])
    param_names = ["remat", "num_layers", "segment_length"]

    def setup(self, remat: bool, num_layers: int, segment_length: int) -> None:
        keras.utils.set_random_seed(0)
        backbone = keras_txl.models.TransformerXLBackbone(
            vocabulary_size=256,
            num_layers=num_layers,
            num_heads=4,
            hidden_dim=256,
            intermediate_dim=1024,
            memory_length=segment_length,
            batch_size=4,
            dropout=0.1,
            remat=remat,
        )
        self.lm = keras_txl.models.TransformerXLCausalLM(backbone)
        self.lm.compile(
            optimizer=keras.optimizers.SGD(0.1), weighted_metrics=None
        )
        ids = np.random.default_rng(0).integers(0, 256, 4 * segment_length + 1)
        stream = keras_txl.data.SegmentStream(
            ids, batch_size=4, segment_length=segment_length
        )
        self.batch = stream[0]

    def time_training_step(self, *params: Any) -> None:
        self.lm.train_on_batch(*self.batch)

    def peakmem_training_step(self, *params: Any) -> None:
        for _ in range(2):
            self.lm.train_on_batch(*self.batch)


if __name__ == "__main__":
    harness.main("remat", [Rematerialization])
