"""One layer of a Transformer-XL: attention, then feed-forward (paper 3.3).

Axes: B rows, T segment, S = M + T keys, D hidden width, F inner width.
"""

import functools
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_positive
from keras_txl.layers.attention_biases import RelativeAttentionBiases
from keras_txl.layers.layer_types import in_type_of
from keras_txl.layers.memory_parts import are_keys_in_one
from keras_txl.layers.memory_parts import split_keys
from keras_txl.layers.quantizable import Dense
from keras_txl.layers.relative_attention import RelativeMultiHeadAttention
from keras_txl.layers.rematerialization import call_rematerialized


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLBlock(keras.layers.Layer):
    """Attention over memory and segment, then a feed-forward network.

    Post-norm (the paper): `y = norm(x + attention(x))`,
    `z = norm(y + feed_forward(y))`. Pre-norm normalises memory and segment
    together inside the attention and keeps the residual raw; what memory
    stores is never normalised, and nothing of it is dropped.

    Args:
        num_heads: int.
        head_dim: int.
        intermediate_dim: int. Width F of the feed-forward network.
        normalize_first: bool. Pre-norm instead of post-norm.
        activation: of the feed-forward network.
        dropout: float. Share of outputs dropped in training.
        attention_dropout: float. Share of attention weights dropped.
        attention_logit_cap: float. Keeps scores in `(-cap, cap)`. `None`: no
            cap.
        memory_dropout: float. Share of memory slots that this layer reads as
            zeros in training, drawn for each row; the others are scaled up.
        memory_layer_norm: bool. Keys and values are made of normalised rows,
            of memory and segment alike. Pre-norm does so anyway.
        head_diversity: float. Weight of the loss that keeps heads apart.
        remat: bool. Compute the block anew for the gradients in training
            instead of keeping its inner values.
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
            memory, then `hidden`, whose own rows are read. `None`: no memory.
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
        attention_logit_cap: float | None = None,
        memory_dropout: float = 0.0,
        memory_layer_norm: bool = False,
        head_diversity: float = 0.0,
        remat: bool = False,
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
        self.memory_dropout = check_fraction("memory_dropout", memory_dropout)
        self.memory_layer_norm = check_memory_layer_norm(
            memory_layer_norm, self.normalize_first
        )
        self.remat = bool(remat)
        self.attention = RelativeMultiHeadAttention(
            num_heads,
            head_dim,
            dropout=attention_dropout,
            logit_cap=check_optional_positive(
                "attention_logit_cap", attention_logit_cap
            ),
            head_diversity=head_diversity,
            attention_biases=attention_biases,
            position_terms=position_terms,
            kernel_initializer=kernel_initializer,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.kernel_initializer = self.attention.kernel_initializer
        self.attention_norm = self._norm("attention_norm")
        self.feed_forward_norm = self._norm("feed_forward_norm")
        if self.memory_layer_norm:
            self.memory_norm = self._norm("memory_norm")
        self.memory_dropout_layer = keras.layers.Dropout(
            memory_dropout,
            noise_shape=(None, None, 1),  # whole slots
            dtype=self.dtype_policy,
            name="memory_dropout",
        )
        self.dropout_layer = keras.layers.Dropout(
            dropout, dtype=self.dtype_policy, name="dropout"
        )

    def _norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def _dense(self, units: int, activation: Any, name: str) -> Any:
        initializer = self.kernel_initializer
        return Dense(
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
        if self.memory_layer_norm:
            self.memory_norm.build(shape)
        self.intermediate.build(shape)
        self.projection.build((None, None, self.intermediate_dim))
        for layer in (self.intermediate, self.projection):
            layer.answer_in(self.compute_dtype)
        self.built = True

    def call(
        self,
        hidden: Tensor,
        context: Tensor | None = None,
        relative_encoding: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        run = functools.partial(
            self._run, attention_mask=attention_mask, training=training
        )
        tensors = {
            "hidden": hidden,
            "context": hidden if context is None else context,
            "relative_encoding": relative_encoding,
        }
        if self.remat and training:
            return call_rematerialized(self, run, **tensors)
        return run(**tensors)

    def _run(
        self,
        hidden: Tensor,
        context: Tensor,
        relative_encoding: Tensor | None,
        attention_mask: Tensor | None,
        training: bool | None,
    ) -> Tensor:
        memory, segment = None, self.normalize_context(hidden)
        keys = segment
        slots = ops.shape(context)[1] - ops.shape(hidden)[1]
        if are_keys_in_one():
            keys = self.normalize_context(context)
        elif context is not hidden and not (
            isinstance(slots, int) and slots == 0
        ):
            memory = split_keys(context, slots, axis=1)[0]
            memory = self.normalize_context(memory)
            if training and self.memory_dropout:
                memory = in_type_of(
                    self,
                    self.memory_dropout_layer(memory, training=training),
                )
        attended = self.attention(
            segment if self.normalize_first else hidden,
            keys,
            relative_encoding,
            attention_mask,
            training=training,
            memory=memory,
        )
        return self.finish(hidden, attended, training)

    def normalize_context(self, context: Tensor) -> Tensor:
        """What keys and values are made of, memory and segment alike.

        Args:
            context: float tensor of shape `(batch, key_length, hidden_dim)`,
                as memory stores it.

        Returns:
            Tensor of that shape; the context itself unless the block
            normalises it.
        """
        if self.normalize_first:
            return in_type_of(self, self.attention_norm(context))
        if self.memory_layer_norm:
            return in_type_of(self, self.memory_norm(context))
        return context

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
        attended = self.dropout_layer(attended, training=training)
        hidden = in_type_of(self, hidden) + in_type_of(self, attended)
        if not self.normalize_first:
            hidden = in_type_of(self, self.attention_norm(hidden))
        inner = hidden
        if self.normalize_first:
            inner = self.feed_forward_norm(inner)
        inner = self.intermediate(inner)  # (B, T, F)
        inner = self.dropout_layer(inner, training=training)
        inner = self.dropout_layer(self.projection(inner), training=training)
        hidden = hidden + in_type_of(self, inner)
        if not self.normalize_first:
            hidden = in_type_of(self, self.feed_forward_norm(hidden))
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
            "attention_logit_cap": attention["logit_cap"],
            "memory_dropout": self.memory_dropout,
            "memory_layer_norm": self.memory_layer_norm,
            "head_diversity": attention["head_diversity"],
            "remat": self.remat,
            "position_terms": attention["position_terms"],
            "kernel_initializer": attention["kernel_initializer"],
            "intermediate_dim": self.intermediate_dim,
            "normalize_first": self.normalize_first,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }


def check_memory_layer_norm(memory_layer_norm: Any, first: bool) -> bool:
    """Return it as a bool; pre-norm has no use for it."""
    if memory_layer_norm and first:
        raise ValueError(
            "`memory_layer_norm` has no effect with normalize_first=True, "
            "which already normalizes memory and segment together. Received: "
            f"memory_layer_norm={memory_layer_norm!r}, normalize_first=True. "
            "Leave it out."
        )
    return bool(memory_layer_norm)
