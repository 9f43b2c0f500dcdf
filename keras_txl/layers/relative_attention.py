"""Attention by content and by distance (paper 3.3 and Appendix B).

Its four terms stand in `attention_scores.py`.

Axes: B rows, T segment, S = M + T keys, N heads, H head width, D hidden width.
"""

import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_positive
from keras_txl.checks import check_weight
from keras_txl.layers.attention_biases import RelativeAttentionBiases
from keras_txl.layers.attention_biases import copy_initializer
from keras_txl.layers.attention_biases import normal_initializer
from keras_txl.layers.attention_mask import attention_mask as causal_mask
from keras_txl.layers.attention_scores import relative_attention_scores
from keras_txl.layers.attention_softmax import masked_exponentials
from keras_txl.layers.distance_encoding import descending_distances
from keras_txl.layers.distance_encoding import sinusoid
from keras_txl.layers.head_similarity import head_similarity
from keras_txl.layers.layer_types import in_type_of
from keras_txl.layers.memory_parts import add_unseen_slot
from keras_txl.layers.memory_parts import are_keys_in_one
from keras_txl.layers.memory_parts import join_keys
from keras_txl.layers.memory_parts import memory_slots
from keras_txl.layers.memory_parts import split_keys
from keras_txl.layers.quantizable import EinsumDense
from keras_txl.layers.relative_shift import values_by_distance


@keras.saving.register_keras_serializable(package="keras_txl")
class RelativeMultiHeadAttention(keras.layers.Layer):
    """Multi-head attention with relative positions over memory and segment.

    Args:
        num_heads: int.
        head_dim: int. Width of a head; free of the hidden width.
        dropout: float. Share of attention weights dropped in training.
        logit_cap: float. Keeps scores in `(-logit_cap, logit_cap)`, see
            `cap_logits`. `None`: no cap.
        head_diversity: float. Weight of a loss in training, the
            `head_similarity` of the heads.
        attention_biases: `RelativeAttentionBiases` shared with other layers.
            `None`: its own. Not part of the configuration.
        position_terms: layer of `position_terms.py` that replaces sinusoidal
            distances. `None`: the paper's W_kR R.
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
        memory: float tensor of shape `(batch_size, memory_slots,
            hidden_dim)` in front of a `context` without memory. `None`: what
            `context` holds beyond the length of the query.

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

    watch_weights: Callable[[Tensor], None] | None = None
    """Called with the weights (B, N, T, S) of each call, before dropout."""

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        dropout: float = 0.0,
        logit_cap: float | None = None,
        head_diversity: float = 0.0,
        attention_biases: RelativeAttentionBiases | None = None,
        position_terms: Any = None,
        kernel_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = check_integer("num_heads", num_heads, 1)
        self.head_dim = check_integer("head_dim", head_dim, 1)
        self.dropout = check_fraction("dropout", dropout)
        self.logit_cap = check_optional_positive("logit_cap", logit_cap)
        self.head_diversity = check_weight("head_diversity", head_diversity)
        self.kernel_initializer = normal_initializer(kernel_initializer)
        if isinstance(position_terms, dict):
            position_terms = keras.saving.deserialize_keras_object(
                position_terms
            )
        self.position_terms = position_terms
        use_content_bias, use_position_bias = getattr(
            position_terms, "biases", (True, True)
        )
        self.attention_biases = attention_biases
        if attention_biases is None and use_content_bias:
            self.attention_biases = RelativeAttentionBiases(
                num_heads,
                head_dim,
                use_position_bias=use_position_bias,
                initializer=copy_initializer(self.kernel_initializer),
                dtype=self.dtype_policy,
                name="attention_biases",
            )

    def build(
        self,
        query_shape: Any,
        context_shape: Any = None,
        relative_encoding_shape: Any = None,
        attention_mask_shape: Any = None,
        memory_shape: Any = None,
    ) -> None:
        hidden_dim = query_shape[-1]
        heads = (self.num_heads, self.head_dim)
        if self.attention_biases and not self.attention_biases.built:
            self.attention_biases.build()
        for name in ("query", "key", "value"):
            projection = self._projection(name, "btd,dnh->btnh", (None, *heads))
            projection.build((None, None, hidden_dim))
        if self.position_terms is None:
            self._projection("relative_key", "sd,dnh->snh", heads).build(
                (None, hidden_dim)
            )
        elif not self.position_terms.built:
            self.position_terms.build()
        self._projection("output", "btnh,nhd->btd", (None, hidden_dim)).build(
            (None, None, *heads)
        )
        for name in ("query", "key", "value", "relative_key", "output"):
            layer = getattr(self, f"{name}_projection", None)
            if layer is not None:
                layer.answer_in(self.compute_dtype)
        self.dropout_layer = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name="attention_dropout"
        )
        self.built = True

    def _projection(
        self, name: str, equation: str, output_shape: tuple[int | None, ...]
    ) -> EinsumDense:
        layer = EinsumDense(
            equation,
            output_shape=output_shape,
            kernel_initializer=copy_initializer(self.kernel_initializer),
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
        memory: Tensor | None = None,
    ) -> Tensor:
        length = ops.shape(query)[1]
        context = query if context is None else context
        if memory is None:
            slots = ops.shape(context)[1] - length
            parts = split_keys(context, slots, axis=1)
        else:
            slots = ops.shape(memory)[1]
            parts = [memory, context]
        if attention_mask is None:
            attention_mask = causal_mask(length, slots + length)
        keys = ops.zeros((1, slots + length, 1))  # its length is read
        terms = self.distance_terms(keys, relative_encoding, training, length)
        return self.attend(
            project_tokens(self.query_projection, query),  # (B, T, N, H)
            [project_tokens(self.key_projection, part) for part in parts],
            [project_tokens(self.value_projection, part) for part in parts],
            terms,
            attention_mask,
            training,
        )

    def distance_terms(
        self,
        context: Tensor,
        relative_encoding: Tensor | None = None,
        training: bool | None = None,
        segment_length: int | Tensor | None = None,
    ) -> dict[str, Tensor]:
        """What the distance of a key adds to scores and values.

        Args:
            context: tensor of shape `(batch, key_length, ...)`; only its
                length is read.
            relative_encoding: float tensor R of shape `(key_length,
                hidden_dim)`; `None`: sinusoids.
            training: bool.
            segment_length: int T. The newest T rows are projected apart, so
                that the others change no bit of them. `None`: all at once.

        Returns:
            Dict with some of `relative_key (S, N, H)`, `distance_bias (S, N)`
            and `relative_value (S, H)`, row `r` for distance `S - 1 - r`.
        """
        if self.position_terms is not None:
            terms = self.position_terms(context, training=training)
            return {name: in_type_of(self, terms[name]) for name in terms}
        if relative_encoding is None:
            hidden_dim = self.relative_key_projection.kernel.shape[0]
            relative_encoding = ops.cast(
                sinusoid(
                    descending_distances(ops.shape(context)[1]), hidden_dim
                ),
                self.compute_dtype,
            )
        parts = [relative_encoding]
        if segment_length is not None:
            slots = ops.shape(relative_encoding)[0] - segment_length
            parts = split_keys(relative_encoding, slots, axis=0)
        rows = [self.relative_key_projection(part) for part in parts]
        return {"relative_key": join_keys(rows, axis=0)}

    def attend(
        self,
        query: Tensor,
        keys: Sequence[Tensor],
        values: Sequence[Tensor],
        terms: dict[str, Tensor],
        attention_mask: Tensor,
        training: bool | None = None,
    ) -> Tensor:
        """Weigh the values by the softmax of the scores and project.

        Memory and segment keep sums of their own, which are added last: a
        memory that is not seen adds zeros, and no bit of the rest depends on
        its length (docs/decisions/0007-empty-memory.md).

        Args:
            query: float tensor of shape `(batch, segment_length, num_heads,
                head_dim)`.
            keys: float tensors of shape `(batch, keys, num_heads, head_dim)`:
                memory, if there is one, and the segment.
            values: float tensors of those shapes.
            terms: from `distance_terms`.
            attention_mask: bool tensor of shape `(batch or 1, 1,
                segment_length, key_length)`.
            training: bool. Turns dropout on.

        Returns:
            Float tensor of shape `(batch, segment_length, hidden_dim)`.
        """
        key_length = ops.shape(attention_mask)[3]
        if len(keys) == 1 and not are_keys_in_one():
            keys, values, terms, attention_mask = add_unseen_slot(
                keys[0], values[0], terms, attention_mask
            )
        biases = self.attention_biases
        scores = relative_attention_scores(
            query,
            keys,
            relative_key=terms.get("relative_key"),
            content_bias=None if biases is None else biases.content_bias,
            position_bias=None if biases is None else biases.position_bias,
            distance_bias=terms.get("distance_bias"),
        )  # (B, N, T, M) and (B, N, T, T)
        slots = memory_slots(keys)
        masks = split_keys(attention_mask, slots, axis=3)
        weights, total = masked_exponentials(scores, masks, self.logit_cap)
        if self.watch_weights is not None:
            joined = join_keys(weights, axis=3)[..., -key_length:]
            self.watch_weights(joined if total is None else joined / total)
        weights = [
            in_type_of(self, self.dropout_layer(w, training=training))
            for w in weights
        ]
        weighed = [
            ops.einsum("bnts,bsnh->btnh", *both)
            for both in zip(weights, values, strict=True)
        ]
        heads = functools.reduce(ops.add, weighed)
        if "relative_value" in terms:
            heads += values_by_distance(weights, terms["relative_value"])
        if total is not None:
            heads /= ops.transpose(total, (0, 2, 1, 3))  # (B, T, N, 1)
        sees_any = ops.any(attention_mask, axis=(1, 3))  # (B or 1, T)
        if training and self.head_diversity:
            similarity = head_similarity(heads, sees_any)
            self.add_loss(self.head_diversity * similarity)
        sees_any = ops.cast(ops.expand_dims(sees_any, (-2, -1)), heads.dtype)
        heads = ops.multiply(heads, sees_any)  # (B, T, N, H)
        return project_tokens(self.output_projection, heads)  # (B, T, D)

    def compute_output_spec(
        self,
        query: Tensor,
        context: Tensor | None = None,
        relative_encoding: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        memory: Tensor | None = None,
    ) -> Tensor:
        return keras.KerasTensor(query.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        terms = self.position_terms
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "dropout": self.dropout,
            "logit_cap": self.logit_cap,
            "head_diversity": self.head_diversity,
            "position_terms": terms
            and keras.saving.serialize_keras_object(terms),
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
        }


def project_tokens(projection: Any, tokens: Tensor) -> Tensor:
    """Project all rows of a batch as one row.

    It is what the projection does anyway, but for the gradient of its kernel:
    TensorFlow would make one for each row and add them up.

    Args:
        projection: layer from `(1, tokens, ...)` to `(1, tokens, ...)`.
        tokens: tensor of shape `(batch, length, ...)`.

    Returns:
        Tensor of shape `(batch, length, ...)`.
    """
    batch, length, *width = ops.shape(tokens)
    rows = ops.reshape(tokens, (1, batch * length, *width))
    rows = projection(rows)
    return ops.reshape(rows, (batch, length, *rows.shape[2:]))
