"""From the embedding width E to the hidden width D, and back for the logits."""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer


@keras.saving.register_keras_serializable(package="keras_txl")
class EmbeddingProjection(keras.layers.Layer):
    """A bias-free linear map that can also be called in reverse.

    It is to the embedding width what `keras.layers.ReversibleEmbedding` is to
    the vocabulary.

    Args:
        embedding_dim: int E.
        hidden_dim: int D.
        tie_weights: bool. Whether the reverse map is the transpose of the
            forward one, or a matrix of its own.
        kernel_initializer: of both matrices. Defaults to N(0, 0.01).
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor of shape `(..., embedding_dim)`, in reverse
            `(..., hidden_dim)`.
        reverse: bool.

    Returns:
        Float tensor of shape `(..., hidden_dim)`, in reverse
        `(..., embedding_dim)`.
    """

    def __init__(
        self,
        embedding_dim: int,
        hidden_dim: int,
        tie_weights: bool = False,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embedding_dim = check_integer("embedding_dim", embedding_dim, 1)
        self.hidden_dim = check_integer("hidden_dim", hidden_dim, 1)
        self.tie_weights = bool(tie_weights)
        if kernel_initializer is None:
            kernel_initializer = keras.initializers.RandomNormal(stddev=0.01)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: Any = None) -> None:
        shape = (self.embedding_dim, self.hidden_dim)
        self.kernel = self.add_weight(
            name="kernel", shape=shape, initializer=self.kernel_initializer
        )
        if not self.tie_weights:
            self.reverse_kernel = self.add_weight(
                name="reverse_kernel",
                shape=shape[::-1],
                initializer=self.kernel_initializer.__class__.from_config(
                    self.kernel_initializer.get_config()
                ),
            )
        self.built = True

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if not reverse:
            return ops.matmul(inputs, self.kernel)
        if self.tie_weights:
            return ops.matmul(inputs, ops.transpose(self.kernel))
        return ops.matmul(inputs, self.reverse_kernel)

    def compute_output_spec(
        self, inputs: Tensor, reverse: bool = False
    ) -> Tensor:
        width = self.embedding_dim if reverse else self.hidden_dim
        return keras.KerasTensor(
            (*inputs.shape[:-1], width), dtype=self.compute_dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "hidden_dim": self.hidden_dim,
            "tie_weights": self.tie_weights,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
        }
