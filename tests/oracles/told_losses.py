"""A model whose losses a test tells, for what reads documents."""

from types import SimpleNamespace

import numpy as np

from keras_txl.layers.attention_mask import SegmentAttentionMask


class ToldLosses:
    """What an evaluation needs of a language model, and no weights.

    A subclass gives `losses(inputs, memory)` of shape `(batch,
    segment_length)`.
    """

    weights = ()

    def __init__(self):
        self.backbone = SimpleNamespace(
            attend_empty_memory=False,
            attention_mask=SegmentAttentionMask(),
            compute_dtype="float32",
            memory_dtype="float16",  # its memory stays one of hidden states
            memory_layers=[],
            position="none",
            transformer_layers=[
                SimpleNamespace(normalize_first=False, memory_layer_norm=False)
            ],
        )

    def initial_memory(self, batch_size, memory_length=0):
        shape = (batch_size, 1, memory_length, 2)
        return {"states": np.ones(shape, "float32")}

    def token_losses(self, inputs, targets, memory):
        return self.losses(inputs, memory).astype("float32"), memory
