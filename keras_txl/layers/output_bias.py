"""The bias of the logits: one number a token.

Axes: B rows, T segment, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.token_packing import zero_padding


@keras.saving.register_keras_serializable(package="keras_txl")
class OutputBias(keras.layers.Layer):
    """Adds one bias a token to the scores and zeros them on padding.

    Call arguments:
        scores: float tensor of shape `(batch_size, segment_length,
            vocabulary_size)`.
        document_ids: int tensor of shape `(batch_size, segment_length)`, -1
            on padding.

    Returns:
        Float tensor of the shape of `scores`: the logits.
    """

    def build(self, scores_shape: Any, document_ids_shape: Any = None) -> None:
        self.bias = self.add_weight(
            name="bias", shape=(scores_shape[-1],), initializer="zeros"
        )
        self.built = True

    def call(self, scores: Tensor, document_ids: Tensor) -> Tensor:
        return zero_padding(ops.add(scores, self.bias), document_ids)

    def compute_output_spec(self, scores: Tensor, document_ids: Tensor) -> Any:
        return keras.KerasTensor(scores.shape, dtype=self.compute_dtype)
