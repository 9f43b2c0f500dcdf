"""One layer of a Transformer-XL: attention, then feed-forward (paper 3.3).

Axes: B rows, T segment, S = M + T keys, D hidden width, F inner width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.layers.attention_biases import RelativeAttentionBiases
from keras_txl.layers.relative_attention import RelativeMultiHeadAttention


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLBlock(keras.layers.Layer):
    """Attention over memory and segment, then a feed-forward network.

    Post-norm (the paper): `y = norm(x + attention(x))`,
    `z = norm(y + feed_forward(y))`. Pre-norm normalises memory and segment
    together inside the attention and keeps the residual raw; what memory
    stores is never normalised.

    Args:
        num_heads: int.
        head_dim: int.
        intermediate_dim: int. Width F of the feed-forward network.
        normalize_first: bool. Pre-norm instead of post-norm.
        activation: of the feed-forward network.
        dropout: float. Share of outputs dropped in training.
        attention_dropout: float. Share of attention weights dropped.
        layer_norm_epsilon: float.
        attention_biases: `RelativeAttentionBiases` shared with other blocks.
            `None`: its own. Not part of the configuration.
        position_terms: layer of `position_terms.py` that replaces sinusoidal
            distances. `None`: the paper's W_kR R.
        kernel_initializer: of all matrices. Defaults to N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor of shape `(batch_size, segment_length,
            hidden_dim)`.
        context: float tensor of shape `(batch_size, key_length, hidden_dim)`:
            memory, then `hidden`. `None`: no memory.
        relative_encoding: float tensor of shape `(key_length, hidden_dim)`.
            `None`: sinusoids.
        attention_mask: bool tensor of shape `(batch_size or 1, 1,
            segment_length, key_length)`. `None`: causal.
        training: bool. Turns dropout on.

    Returns:
        Float tensor of the shape of `hidden`.

    Example:
    ```python
    block = keras_txl.layers.TransformerXLBlock(2, 4, intermediate_dim=16)
    block(keras.random.normal((1, 3, 8))).shape  # (1, 3, 8)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        intermediate_dim: int,
        normalize_first: bool = False,
        activation: Any = "relu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-5,
        attention_biases: RelativeAttentionBiases | None = None,
        position_terms: Any = None,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate_dim = check_integer(
            "intermediate_dim", intermediate_dim, 1
        )
        self.normalize_first = bool(normalize_first)
        self.activation = keras.activations.get(activation)
        self.dropout = check_fraction("dropout", dropout)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.attention = RelativeMultiHeadAttention(
            num_heads,
            head_dim,
            dropout=attention_dropout,
            attention_biases=attention_biases,
            position_terms=position_terms,
            kernel_initializer=kernel_initializer,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.kernel_initializer = self.attention.kernel_initializer
        self.attention_norm = self._norm("attention_norm")
        self.feed_forward_norm = self._norm("feed_forward_norm")
        self.dropout_layer = keras.layers.Dropout(
            dropout, dtype=self.dtype_policy, name="dropout"
        )

    def _norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def _dense(self, units: int, activation: Any, name: str) -> Any:
        initializer = self.kernel_initializer
        return keras.layers.Dense(
            units,
            activation=activation,
            kernel_initializer=initializer.__class__.from_config(
                initializer.get_config()
            ),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(
        self,
        hidden_shape: Any,
        context_shape: Any = None,
        relative_encoding_shape: Any = None,
        attention_mask_shape: Any = None,
    ) -> None:
        hidden_dim = hidden_shape[-1]
        shape = (None, None, hidden_dim)
        self.intermediate = self._dense(
            self.intermediate_dim, self.activation, "intermediate"
        )
        self.projection = self._dense(hidden_dim, None, "projection")
        self.attention.build(shape)
        self.attention_norm.build(shape)
        self.feed_forward_norm.build(shape)
        self.intermediate.build(shape)
        self.projection.build((None, None, self.intermediate_dim))
        self.built = True

    def call(
        self,
        hidden: Tensor,
        context: Tensor | None = None,
        relative_encoding: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        context = hidden if context is None else context
        query = hidden
        if self.normalize_first:
            context = self.attention_norm(context)  # memory too
            memory_slots = ops.shape(context)[1] - ops.shape(hidden)[1]
            query = context[:, memory_slots:]
        attended = self.attention(
            query,
            context,
            relative_encoding,
            attention_mask,
            training=training,
        )
        return self.finish(hidden, attended, training)

    def finish(
        self, hidden: Tensor, attended: Tensor, training: bool | None = None
    ) -> Tensor:
        """Residual, norm and feed-forward network behind the attention.

        Args:
            hidden: float tensor of shape `(batch, segment_length,
                hidden_dim)`, the input of the block.
            attended: float tensor of that shape, the attention's output.
            training: bool. Turns dropout on.

        Returns:
            Float tensor of that shape, the output of the block.
        """
        hidden = hidden + self.dropout_layer(attended, training=training)
        if not self.normalize_first:
            hidden = self.attention_norm(hidden)
        inner = hidden
        if self.normalize_first:
            inner = self.feed_forward_norm(inner)
        inner = self.intermediate(inner)  # (B, T, F)
        inner = self.dropout_layer(inner, training=training)
        inner = self.dropout_layer(self.projection(inner), training=training)
        hidden = hidden + inner
        if not self.normalize_first:
            hidden = self.feed_forward_norm(hidden)
        return hidden

    def compute_output_spec(
        self,
        hidden: Tensor,
        context: Tensor | None = None,
        relative_encoding: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        return keras.KerasTensor(hidden.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        attention = self.attention.get_config()
        return {
            **super().get_config(),
            "num_heads": attention["num_heads"],
            "head_dim": attention["head_dim"],
            "attention_dropout": attention["dropout"],
            "position_terms": attention["position_terms"],
            "kernel_initializer": attention["kernel_initializer"],
            "intermediate_dim": self.intermediate_dim,
            "normalize_first": self.normalize_first,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }
