"""The bias of the logits: one number a token.

Axes: B rows, T segment, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.layers.token_packing import zero_padding


@keras.saving.register_keras_serializable(package="keras_txl")
class OutputBias(keras.layers.Layer):
    """Adds one bias a token to the scores and zeros them on padding.

    Args:
        vocabulary_size: int V.
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        scores: float tensor of shape `(batch_size, segment_length,
            vocabulary_size)`.
        document_ids: int tensor of shape `(batch_size, segment_length)`, -1
            on padding.
        deferred: bool. Return the first argument as it is, whatever its
            width: a model whose loss adds the bias itself has the layer in
            its graph that way.

    Returns:
        Float tensor of the shape of `scores`: the logits.
    """

    def __init__(self, vocabulary_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = check_integer(
            "vocabulary_size", vocabulary_size, 1
        )

    def build(self, scores_shape: Any, document_ids_shape: Any = None) -> None:
        self.bias = self.add_weight(
            name="bias", shape=(self.vocabulary_size,), initializer="zeros"
        )
        self.built = True

    def call(
        self, scores: Tensor, document_ids: Tensor, deferred: bool = False
    ) -> Tensor:
        if deferred:
            return scores
        return zero_padding(ops.add(scores, self.bias), document_ids)

    def compute_output_spec(
        self, scores: Tensor, document_ids: Tensor, deferred: bool = False
    ) -> Any:
        return keras.KerasTensor(scores.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
        }
