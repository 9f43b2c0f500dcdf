"""Attention by content and by distance (paper 3.3 and Appendix B).

The four terms of the score of query i and key j, in the paper's letters:

    (a) q_i . k_j      content addressing
    (b) q_i . r_(i-j)  content-dependent position
    (c) u . k_j        global content bias
    (d) v . r_(i-j)    global position bias

Axes: B rows, T segment, S = M + T keys, N heads, H head width, D hidden width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.layers.attention_mask import attention_mask as causal_mask
from keras_txl.layers.distance_encoding import descending_distances
from keras_txl.layers.distance_encoding import sinusoid


def relative_attention_scores(
    query: Tensor,
    key: Tensor,
    relative_key: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
) -> Tensor:
    """Scores of every query and key, terms (a) to (d), over the root of H.

    u and v are added to the query before the product, so (a) and (c) are one
    product over keys and (b) and (d) one over distances.

    Args:
        query: float tensor of shape `(batch, segment_length, num_heads,
            head_dim)`.
        key: float tensor of shape `(batch, key_length, num_heads, head_dim)`.
        relative_key: float tensor W_kR R of shape `(key_length, num_heads,
            head_dim)`, row `r` for distance `key_length - 1 - r`.
        content_bias: float tensor u of shape `(num_heads, head_dim)`.
        position_bias: float tensor v of shape `(num_heads, head_dim)`.

    Returns:
        Tensor of shape `(batch, num_heads, segment_length, key_length)`.
        Entries of keys that come after the query are meaningless and must be
        masked.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """
    content = ops.einsum(
        "btnh,bsnh->bnts", ops.add(query, content_bias), key
    )  # (a) + (c)
    position = ops.einsum(
        "btnh,snh->bnts", ops.add(query, position_bias), relative_key
    )  # (b) + (d)
    scale = query.shape[-1] ** -0.5
    return ops.multiply(content + relative_shift(position), scale)


def relative_shift(scores: Tensor) -> Tensor:
    """Align scores indexed by distance with scores indexed by key.

    Column `r` of the input holds the score for distance `S - 1 - r`. Entry
    `(i, j)` of the result is the input's `(i, T - 1 - i + j)`; entries with
    `j > M + i` lie in the future, are meaningless, and must be masked.

    Args:
        scores: float tensor of shape `(batch, num_heads, segment_length,
            key_length)`.

    Returns:
        Tensor of the same shape and dtype.

    Raises:
        ValueError: if `key_length` is shorter than `segment_length`.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), Appendix B.
    """
    batch, num_heads, queries, keys = ops.shape(scores)
    if isinstance(queries, int) and isinstance(keys, int) and keys < queries:
        raise ValueError(
            "`key_length` must be at least `segment_length`: every query sees "
            f"itself. Received: scores.shape={tuple(scores.shape)}. Put the "
            "segment itself at the end of the keys."
        )
    shifted = ops.pad(scores, [[0, 0], [0, 0], [0, 0], [1, 0]])
    shifted = ops.reshape(
        shifted, (batch, num_heads, keys + 1, queries)
    )  # (B, N, S + 1, T)
    return ops.reshape(
        shifted[:, :, 1:], (batch, num_heads, queries, keys)
    )  # (B, N, T, S)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the visible keys, in float32 or wider.

    Args:
        scores: float tensor of shape `(batch, num_heads, segment_length,
            key_length)`.
        mask: bool tensor that broadcasts to it, `True` where a query sees a
            key. A row that sees nothing gives uniform finite weights; the
            caller drops its result.

    Returns:
        Tensor of the shape and dtype of `scores`. Hidden keys get exactly 0.
    """
    if scores.shape[-1] == 1:  # Keras warns about a softmax over one entry
        return ops.ones_like(scores)
    dtype = keras.backend.standardize_dtype(scores.dtype)
    if dtype in ("float16", "bfloat16"):
        scores = ops.cast(scores, "float32")
    scores = ops.where(mask, scores, ops.cast(-1e30, scores.dtype))
    return ops.cast(ops.softmax(scores, axis=-1), dtype)


@keras.saving.register_keras_serializable(package="keras_txl")
class RelativeAttentionBiases(keras.layers.Layer):
    """Holds the paper's u and v, which several layers may share.

    Args:
        num_heads: int.
        head_dim: int.
        initializer: initializer of both. Defaults to N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Attributes:
        content_bias: variable u of shape `(num_heads, head_dim)`.
        position_bias: variable v of the same shape.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = check_integer("num_heads", num_heads, 1)
        self.head_dim = check_integer("head_dim", head_dim, 1)
        self.initializer = _initializer(initializer)

    def build(self, input_shape: Any = None) -> None:
        shape = (self.num_heads, self.head_dim)
        self.content_bias = self.add_weight(
            name="content_bias",
            shape=shape,
            initializer=_copy(self.initializer),
        )
        self.position_bias = self.add_weight(
            name="position_bias",
            shape=shape,
            initializer=_copy(self.initializer),
        )
        self.built = True

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "initializer": keras.initializers.serialize(self.initializer),
        }


@keras.saving.register_keras_serializable(package="keras_txl")
class RelativeMultiHeadAttention(keras.layers.Layer):
    """Multi-head attention with relative positions over memory and segment.

    Args:
        num_heads: int.
        head_dim: int. Width of a head; free of the hidden width.
        dropout: float. Share of attention weights dropped in training.
        attention_biases: `RelativeAttentionBiases` shared with other layers.
            `None`: its own. Not part of the configuration.
        kernel_initializer: of all projections and biases. Defaults to
            N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        query: float tensor of shape `(batch_size, segment_length,
            hidden_dim)`.
        context: float tensor of shape `(batch_size, key_length, hidden_dim)`,
            memory and then the segment. `None`: the query alone.
        relative_encoding: float tensor of shape `(key_length, hidden_dim)`,
            newest last. `None`: sinusoids.
        attention_mask: bool tensor of shape `(batch_size or 1, 1,
            segment_length, key_length)`, `True` where a query sees a key.
            It may only hide keys: `None`, causal, shows the most. A query
            that sees no key gives zeros.
        training: bool. Turns dropout on.

    Returns:
        Float tensor of shape `(batch_size, segment_length, hidden_dim)`.

    Example:
    ```python
    attention = keras_txl.layers.RelativeMultiHeadAttention(2, head_dim=4)
    attention(keras.random.normal((1, 3, 8))).shape  # (1, 3, 8)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        dropout: float = 0.0,
        attention_biases: RelativeAttentionBiases | None = None,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = check_integer("num_heads", num_heads, 1)
        self.head_dim = check_integer("head_dim", head_dim, 1)
        self.dropout = check_fraction("dropout", dropout)
        self.kernel_initializer = _initializer(kernel_initializer)
        self.attention_biases = attention_biases or RelativeAttentionBiases(
            num_heads,
            head_dim,
            initializer=_copy(self.kernel_initializer),
            dtype=self.dtype_policy,
            name="attention_biases",
        )

    def build(
        self,
        query_shape: Any,
        context_shape: Any = None,
        relative_encoding_shape: Any = None,
        attention_mask_shape: Any = None,
    ) -> None:
        if not self.attention_biases.built:
            self.attention_biases.build()
        hidden_dim = query_shape[-1]
        heads = (self.num_heads, self.head_dim)
        for name in ("query", "key", "value"):
            projection = self._projection(name, "btd,dnh->btnh", (None, *heads))
            projection.build((None, None, hidden_dim))
        self._projection("relative_key", "sd,dnh->snh", heads).build(
            (None, hidden_dim)
        )
        self._projection("output", "btnh,nhd->btd", (None, hidden_dim)).build(
            (None, None, *heads)
        )
        self.dropout_layer = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name="attention_dropout"
        )
        self.built = True

    def _projection(
        self, name: str, equation: str, output_shape: tuple[int | None, ...]
    ) -> keras.layers.EinsumDense:
        layer = keras.layers.EinsumDense(
            equation,
            output_shape=output_shape,
            kernel_initializer=_copy(self.kernel_initializer),
            dtype=self.dtype_policy,
            name=name,
        )
        setattr(self, f"{name}_projection", layer)
        return layer

    def call(
        self,
        query: Tensor,
        context: Tensor | None = None,
        relative_encoding: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        context = query if context is None else context
        keys = ops.shape(context)[1]
        if relative_encoding is None:
            relative_encoding = ops.cast(
                sinusoid(descending_distances(keys), query.shape[-1]),
                self.compute_dtype,
            )
        if attention_mask is None:
            attention_mask = causal_mask(ops.shape(query)[1], keys)
        scores = relative_attention_scores(
            self.query_projection(query),  # (B, T, N, H)
            self.key_projection(context),  # (B, S, N, H)
            self.relative_key_projection(relative_encoding),  # (S, N, H)
            self.attention_biases.content_bias,
            self.attention_biases.position_bias,
        )  # (B, N, T, S)
        return self.combine(
            scores, self.value_projection(context), attention_mask, training
        )

    def combine(
        self,
        scores: Tensor,
        value: Tensor,
        attention_mask: Tensor,
        training: bool | None = None,
    ) -> Tensor:
        """Weigh the values by the softmax of the scores and project.

        Args:
            scores: float tensor of shape `(batch, num_heads, segment_length,
                key_length)`.
            value: float tensor of shape `(batch, key_length, num_heads,
                head_dim)`.
            attention_mask: bool tensor of shape `(batch or 1, 1,
                segment_length, key_length)`.
            training: bool. Turns dropout on.

        Returns:
            Float tensor of shape `(batch, segment_length, hidden_dim)`.
        """
        weights = masked_softmax(scores, attention_mask)  # (B, N, T, S)
        weights = self.dropout_layer(weights, training=training)
        heads = ops.einsum("bnts,bsnh->btnh", weights, value)
        sees_any = ops.any(attention_mask, axis=-1)  # (B or 1, 1, T)
        sees_any = ops.transpose(sees_any, (0, 2, 1))[..., None]
        heads = ops.multiply(heads, ops.cast(sees_any, heads.dtype))
        return self.output_projection(heads)  # (B, T, D)

    def compute_output_spec(
        self,
        query: Tensor,
        context: Tensor | None = None,
        relative_encoding: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        return keras.KerasTensor(query.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
        }


def _initializer(initializer: Any) -> Any:
    if initializer is None:
        return keras.initializers.RandomNormal(stddev=0.02)
    return keras.initializers.get(initializer)


def _copy(initializer: Any) -> Any:
    """Another instance, so that two weights never share a seed."""
    return initializer.__class__.from_config(initializer.get_config())
