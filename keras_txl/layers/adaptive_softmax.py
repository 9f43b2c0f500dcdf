"""Softmax over bins of frequency: rare tokens cost little.

The head is a softmax over the shortlist and one class for each tail. A token
of tail i has `log p(tail i in the head) + log p(token in tail i)`; all of it
in log space, where rare tokens keep their losses.

Axes: B rows, T segment, N tokens, D hidden width, E_i width and V_i tokens of
bin i, K tails, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_optional_integer
from keras_txl.checks import check_tied_projections
from keras_txl.layers.adaptive_embedding import AdaptiveEmbedding
from keras_txl.layers.adaptive_embedding import make_table
from keras_txl.layers.adaptive_embedding import table_rows
from keras_txl.layers.layer_types import has_several_types
from keras_txl.layers.layer_types import in_type_of
from keras_txl.layers.linear_token_losses import at_least_float32
from keras_txl.layers.linear_token_losses import default_chunk
from keras_txl.layers.linear_token_losses import linear_token_losses

TAIL_CHUNK = 128
"""Most tokens of a chunk of a tail. What a chunk has room for beyond the
tokens in the tail is computed in vain, so few tokens get shorter ones."""


@keras.saving.register_keras_serializable(package="keras_txl")
class AdaptiveSoftmax(keras.layers.Layer):
    """Token losses and log-probabilities over the bins of an embedding.

    Losses are in token order. They never hold the logits of all tokens, and
    the logits of a tail are computed only for the tokens that belong to it.

    In the head, tail i (1, 2, ...) is column `shortlist + i - 1`, as in the
    released TensorFlow code and Hugging Face; the released PyTorch code has
    the tails in reverse.

    Args:
        embedding: the `AdaptiveEmbedding` that gives the bins and, where
            tied, the weights.
        tie_embeddings: bool. Whether its tables are the output tables.
        tie_projections: whether the projections of the embedding, transposed,
            are those of the output: `None` (the released runs: all but the
            first), a bool, or a list of a bool for each bin.
        chunk: int. Tokens whose logits exist at once. Default: as many as
            make 32 MiB.
        kernel_initializer: of tables and cluster weights. Defaults to
            N(0, 0.02).
        projection_initializer: of projections. Defaults to N(0, 0.01).
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        hidden: float tensor of shape `(batch_size, segment_length,
            hidden_dim)`.
        targets: int ids of shape `(batch_size, segment_length)`, or `None`.
        deferred: bool. Return `hidden`: a model whose loss calls
            `token_losses` itself has the layer in its graph that way.

    Returns:
        With targets their losses in nats, of shape `(batch_size,
        segment_length)`; without them log-probabilities of all tokens, of
        shape `(batch_size, segment_length, vocabulary_size)`. Both float32.

    Raises:
        ValueError: if `tie_projections` has not one bool for each bin.

    Example:
    ```python
    embedding = keras_txl.layers.AdaptiveEmbedding(100, 8, 8, [20, 50])
    softmax = keras_txl.layers.AdaptiveSoftmax(embedding)
    hidden = embedding(np.array([[0, 99]]))
    softmax(hidden, np.array([[99, 30]])).shape  # (1, 2)
    softmax(hidden).shape  # (1, 2, 100)
    ```

    Reference:
        Grave et al. 2016 (arXiv 1609.04309).
    """

    def __init__(
        self,
        embedding: AdaptiveEmbedding,
        tie_embeddings: bool = True,
        tie_projections: bool | list[bool] | None = None,
        chunk: int | None = None,
        kernel_initializer: Any = None,
        projection_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding
        self.tie_embeddings = bool(tie_embeddings)
        self.tie_projections = tie_projections
        self.tied = check_tied_projections(tie_projections, len(embedding.bins))
        self.chunk = check_optional_integer("chunk", chunk, 1)
        self.kernel_initializer = keras.initializers.get(
            kernel_initializer or embedding.embeddings_initializer
        )
        self.projection_initializer = keras.initializers.get(
            projection_initializer or embedding.projection_initializer
        )

    def build(self, hidden_shape: Any, targets_shape: Any = None) -> None:
        embedding = self.embedding
        if not embedding.built:
            embedding.build()
        self.cluster_kernel = self._weight(
            "cluster_kernel",
            (len(embedding.cutoffs), embedding.embedding_dim),
            self.kernel_initializer,
        )
        self.cluster_bias = self._weight(
            "cluster_bias", (len(embedding.cutoffs),), "zeros"
        )
        self.bias = self._weight("bias", (embedding.vocabulary_size,), "zeros")
        self.table_layers: list[Any] = []
        if not self.tie_embeddings:
            self.table_layers = [
                make_table(
                    index,
                    (layer.input_dim, layer.output_dim),
                    self.kernel_initializer,
                    policy_of(layer),
                )
                for index, layer in enumerate(embedding.table_layers)
            ]
        self.projections: list[Any] = []
        if embedding.projections:
            self.projections = [
                None
                if tied
                else self._weight(
                    f"projection_{index}",
                    (embedding.hidden_dim, width),
                    self.projection_initializer,
                )
                for index, (tied, width) in enumerate(
                    zip(self.tied, embedding.widths, strict=True)
                )
            ]
        self.built = True

    @property
    def tables(self) -> list[Any]:
        """Rows of each bin of its own; computed, if they are quantized."""
        return [table_rows(layer) for layer in self.table_layers]

    def _weight(self, name: str, shape: Any, initializer: Any) -> Any:
        initializer = keras.initializers.get(initializer)
        return self.add_weight(
            name=name,
            shape=tuple(shape),
            initializer=initializer.__class__.from_config(
                initializer.get_config()
            ),
            autocast=False,
        )

    def call(
        self,
        hidden: Tensor,
        targets: Tensor | None = None,
        deferred: bool = False,
    ) -> Tensor:
        if deferred:
            return hidden
        if targets is None:
            return self.log_probs(hidden)
        return self.token_losses(hidden, targets)

    def token_losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Loss of each target, in token order.

        Args:
            hidden: float tensor of shape `(batch, segment_length,
                hidden_dim)`.
            targets: int ids of shape `(batch, segment_length)`.

        Returns:
            Float32 tensor of shape `(batch, segment_length)` in nats.
        """
        shape = ops.shape(targets)
        width = self.embedding.hidden_dim
        states = ops.reshape(in_type_of(self, hidden), (-1, width))  # (N, D)
        targets = ops.reshape(ops.cast(targets, "int32"), (-1,))
        bins = self._bins()
        bin_of = ops.zeros_like(targets)
        for cutoff in self.embedding.cutoffs:
            bin_of = bin_of + ops.cast(targets >= cutoff, "int32")
        shortlist = self.embedding.cutoffs[0]
        head_targets = ops.where(bin_of == 0, targets, shortlist + bin_of - 1)
        losses = linear_token_losses(
            states,
            *bins[0],
            head_targets,
            self.chunk or default_chunk(bins[0][1].shape[0]),
        )
        # The tokens of each tail side by side, so that its chunks are full.
        order = ops.cast(ops.argsort(bin_of), "int32")
        first = ops.sum(ops.cast(bin_of == 0, "int32"))
        for index, (start, _) in enumerate(self.embedding.bins[1:], 1):
            inside = bin_of == index
            count = ops.sum(ops.cast(inside, "int32"))
            losses = losses + linear_token_losses(
                states,
                *bins[index],
                ops.where(inside, targets - start, 0),
                self.chunk or _tail_chunk(states, bins[index][1]),
                order=_rotate(order, first),
                count=count,
            )
            first = first + count
        return ops.reshape(losses, shape)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of the whole vocabulary.

        Args:
            hidden: float tensor of shape `(batch, segment_length,
                hidden_dim)`.

        Returns:
            Float32 tensor of shape `(batch, segment_length,
            vocabulary_size)`.
        """
        hidden = in_type_of(self, hidden)
        head, *tails = self._bins()
        shortlist = self.embedding.cutoffs[0]
        head_log_probs = _log_softmax(hidden, *head)
        parts = [head_log_probs[..., :shortlist]]
        for index, tail in enumerate(tails):
            column = shortlist + index
            cluster = head_log_probs[..., column : column + 1]  # (B, T, 1)
            parts.append(cluster + _log_softmax(hidden, *tail))
        return ops.concatenate(parts, axis=-1)  # (B, T, V)

    def _bins(self) -> list[tuple[Any, Tensor, Tensor]]:
        """Projection (D, E_i) or `None`, table (V_i, E_i), bias of each bin.

        The head is bin 0 with the clusters behind the shortlist.
        """
        embedding = self.embedding
        cutoffs = list(embedding.cutoffs)
        tables = self.tables or embedding.tables
        if embedding.div_val == 1:
            # One split: its gradient is one table, not one for each bin.
            tables = ops.split(ops.convert_to_tensor(tables[0]), cutoffs)
        biases = ops.split(at_least_float32(self.bias), cutoffs)
        head = [tables[0], self.cluster_kernel]
        tables = [ops.concatenate(head, axis=0), *tables[1:]]
        biases = [
            ops.concatenate(
                [biases[0], at_least_float32(self.cluster_bias)], axis=0
            ),
            *biases[1:],
        ]
        projections: list[Any] = [None] * len(biases)
        for index, own in enumerate(self.projections):
            if own is None:
                shared = min(index, len(embedding.projections) - 1)
                own = ops.transpose(embedding.projections[shared])
            projections[index] = own
        return list(zip(projections, tables, biases, strict=True))

    def compute_output_spec(
        self,
        hidden: Tensor,
        targets: Tensor | None = None,
        deferred: bool = False,
    ) -> Tensor:
        if deferred:
            return keras.KerasTensor(hidden.shape, dtype=hidden.dtype)
        shape = tuple(hidden.shape[:-1])
        if targets is None:
            shape = (*shape, self.embedding.vocabulary_size)
        return keras.KerasTensor(shape, dtype=self.variable_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding": keras.saving.serialize_keras_object(self.embedding),
            "tie_embeddings": self.tie_embeddings,
            "tie_projections": self.tie_projections,
            "chunk": self.chunk,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "projection_initializer": keras.initializers.serialize(
                self.projection_initializer
            ),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AdaptiveSoftmax":
        config = dict(config)
        config["embedding"] = keras.saving.deserialize_keras_object(
            config["embedding"]
        )
        return cls(**config)


def policy_of(layer: keras.layers.Layer) -> Any:
    """The dtype policy of a layer, also where a map holds it by its path."""
    policy = layer.dtype_policy
    return policy[layer.path] if has_several_types(layer) else policy


def _log_softmax(
    hidden: Tensor, projection: Any, table: Tensor, bias: Tensor
) -> Tensor:
    """Log-probabilities over the rows of one table, in its dtype."""
    if projection is not None:
        hidden = ops.matmul(hidden, ops.cast(projection, hidden.dtype))
    table = ops.cast(table, hidden.dtype)
    logits = ops.matmul(hidden, ops.transpose(table))
    return ops.log_softmax(ops.cast(logits, bias.dtype) + bias, axis=-1)


def _tail_chunk(states: Tensor, table: Tensor) -> int:
    """Tokens of a chunk of a tail: about a sixteenth of all, if it is known."""
    num_tokens = ops.shape(states)[0]
    most = min(TAIL_CHUNK, default_chunk(table.shape[0]))
    if not isinstance(num_tokens, int):
        return most
    return min(most, max(16, num_tokens // 16))


def _rotate(order: Tensor, first: Tensor) -> Tensor:
    """`order` from place `first` on, the beginning behind the end."""
    length = ops.shape(order)[0]
    places = (ops.arange(length, dtype="int32") + first) % length
    return ops.take(order, places)
