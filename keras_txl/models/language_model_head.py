"""From hidden states to logits and token losses, plain or adaptive.

A deferred head leaves the logits out of the graph: the model then returns
hidden states, and the loss works on these a chunk at a time.

Axes: B rows, T segment, D hidden width, E embedding width, V vocabulary.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.adaptive_softmax import AdaptiveSoftmax
from keras_txl.layers.linear_token_losses import at_least_float32
from keras_txl.layers.linear_token_losses import default_chunk
from keras_txl.layers.linear_token_losses import linear_token_losses
from keras_txl.layers.output_bias import OutputBias
from keras_txl.layers.sampled_softmax import log_uniform_candidates
from keras_txl.layers.sampled_softmax import sampled_token_losses
from keras_txl.layers.token_packing import zero_padding
from keras_txl.metrics.token_loss_metric import token_losses


class LanguageModelHead:
    """The head that the arguments of a backbone ask for.

    It is no layer: its weights are in `output_bias` or `adaptive_softmax`,
    which the model owns, and in the backbone where they are tied.

    Args:
        backbone: a `TransformerXLBackbone`.
    """

    def __init__(self, backbone: Any) -> None:
        self.backbone = backbone
        self.deferred = any(
            argument is not None
            for argument in (
                backbone.cutoffs,
                backbone.loss_chunk,
                backbone.num_sampled,
            )
        )
        self.output_bias: Any = None
        self.adaptive_softmax: Any = None
        self.seed_generator: Any = None
        if backbone.cutoffs is not None:
            self.adaptive_softmax = AdaptiveSoftmax(
                backbone.token_embedding,
                tie_embeddings=backbone.tie_embeddings,
                tie_projections=backbone.tie_projections,
                chunk=backbone.loss_chunk,
                dtype=backbone.dtype_policy,
                name="adaptive_softmax",
            )
        else:
            self.output_bias = OutputBias(
                backbone.vocabulary_size,
                dtype=backbone.dtype_policy,
                name="output_bias",
            )
        if backbone.num_sampled is not None:
            self.seed_generator = keras.random.SeedGenerator(
                name="candidate_seed"
            )

    def graph_output(self, hidden: Tensor, document_ids: Tensor) -> Tensor:
        """What the model returns: logits, or hidden states if deferred."""
        if self.adaptive_softmax is not None:
            return self.adaptive_softmax(hidden, deferred=True)
        if self.deferred:
            return self.output_bias(hidden, document_ids, deferred=True)
        return self.logits(hidden, document_ids)

    def logits(self, hidden: Tensor, document_ids: Tensor) -> Tensor:
        """Logits of all tokens, of an adaptive head log-probabilities.

        Args:
            hidden: float tensor of shape `(batch, segment_length,
                hidden_dim)`.
            document_ids: int tensor of shape `(batch, segment_length)`, -1 on
                padding.

        Returns:
            Float tensor of shape `(batch, segment_length, vocabulary_size)`,
            zeros on padding.
        """
        if self.adaptive_softmax is not None:
            log_probs = self.adaptive_softmax.log_probs(hidden)
            return zero_padding(log_probs, document_ids)
        return self.output_bias(self.backbone.unembed(hidden), document_ids)

    def token_losses(
        self,
        hidden: Tensor,
        targets: Tensor,
        document_ids: Tensor,
        training: bool = False,
    ) -> Tensor:
        """Loss of each target in nats, from hidden states.

        Args:
            hidden: float tensor of shape `(batch, segment_length,
                hidden_dim)`.
            targets: int ids of shape `(batch, segment_length)`.
            document_ids: int tensor of that shape, -1 on padding.
            training: bool. Whether candidates may stand for the vocabulary.

        Returns:
            Tensor of that shape in float32 or wider, 0 on padding.
        """
        quantized = getattr(
            self.backbone.token_embedding, "quantization_mode", None
        )
        if not self.deferred or quantized is not None:
            logits = self.logits(hidden, document_ids)
            return logit_losses(targets, logits, document_ids)
        valid = document_ids >= 0
        targets = ops.where(valid, ops.cast(targets, "int32"), 0)
        if self.adaptive_softmax is not None:
            losses = self.adaptive_softmax.token_losses(hidden, targets)
            return ops.where(valid, losses, 0)
        shape = ops.shape(targets)
        states = ops.reshape(hidden, (-1, hidden.shape[-1]))  # (B * T, D)
        targets = ops.reshape(targets, (-1,))
        bias = at_least_float32(self.output_bias.bias)
        weights = (*self._output_weights(), bias)
        if training and self.seed_generator is not None:
            losses = sampled_token_losses(
                states,
                *weights,
                targets,
                *log_uniform_candidates(
                    self.backbone.num_sampled,
                    self.backbone.vocabulary_size,
                    self.seed_generator,
                ),
            )
        else:
            chunk = self.backbone.loss_chunk or default_chunk(
                self.backbone.vocabulary_size
            )
            losses = linear_token_losses(states, *weights, targets, chunk)
        return ops.where(valid, ops.reshape(losses, shape), 0)

    def _output_weights(self) -> tuple[Any, Any]:
        """Projection `(D, E)` or `None`, and table `(V, E)`, of the output."""
        embedding = self.backbone.token_embedding
        projection = self.backbone.embedding_projection
        table = embedding.embeddings
        if not embedding.tie_weights:
            table = ops.transpose(embedding.reverse_embeddings)
        if projection is None:
            return None, table
        if projection.tie_weights:
            return ops.transpose(projection.kernel), table
        return projection.reverse_kernel, table


def logit_losses(
    targets: Tensor, logits: Tensor, document_ids: Tensor
) -> Tensor:
    """Negative log-likelihood of each target, from logits.

    Args:
        targets: int tensor of shape `(batch, segment_length)`.
        logits: float tensor of shape `(batch, segment_length,
            vocabulary_size)`.
        document_ids: int tensor of shape `(batch, segment_length)`, -1 on
            padding.

    Returns:
        Tensor of shape `(batch, segment_length)` in nats, float32 or wider,
        0 on padding.
    """
    valid = document_ids >= 0
    losses = token_losses(ops.where(valid, targets, 0), logits)
    return ops.where(valid, losses, 0)
