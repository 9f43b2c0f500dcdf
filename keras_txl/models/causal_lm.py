"""A Transformer-XL that predicts the next token.

Axes: B rows, T segment, V vocabulary, M memory slots, L layers, D hidden width.
"""

import functools
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_keywords
from keras_txl.data.segment_stream import SegmentStream
from keras_txl.metrics import Perplexity
from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.causal_lm_preprocessor import (
    TransformerXLCausalLMPreprocessor,
)
from keras_txl.models.language_model_head import LanguageModelHead
from keras_txl.models.language_model_head import logit_losses
from keras_txl.models.preset_loading import PresetTaskMixin
from keras_txl.models.prompts import holds_text
from keras_txl.models.replicas import share_of_replica
from keras_txl.models.replicas import sum_over_replicas
from keras_txl.models.scoring import ScoringMixin
from keras_txl.models.stateful_model import StatefulModelMixin
from keras_txl.models.text_generation import TextGenerationMixin
from keras_txl.models.token_inputs import check_range
from keras_txl.models.token_inputs import normalize_inputs
from keras_txl.models.token_metrics import TokenMetrics
from keras_txl.models.token_metrics import check_deferred_loss
from keras_txl.models.value_steps import ValueStepsMixin

KEYWORDS = ("name", "trainable", "dtype", "compile")


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLCausalLM(
    TextGenerationMixin,
    ScoringMixin,
    ValueStepsMixin,
    StatefulModelMixin,
    PresetTaskMixin,
    keras_hub.models.CausalLM,
):
    """A language model that carries memory from segment to segment.

    Args:
        backbone: a `TransformerXLBackbone`.
        preprocessor: a `TransformerXLCausalLMPreprocessor`, or `None` to work
            on token ids alone.
        **kwargs: other arguments of `keras_hub.models.CausalLM`.

    Call arguments:
        inputs: int ids of shape `(batch_size, segment_length)`, or a dict
            with `token_ids` and optionally `document_ids` (-1 is padding) and
            `padding_mask`, each of that shape.
        training: bool. Chooses the memory bank and turns dropout on.

    Returns:
        Logits `(batch_size, segment_length, vocabulary_size)`, zeros on
        padding. If the backbone has `cutoffs`, `loss_chunk` or `num_sampled`:
        the hidden states `(batch_size, segment_length, hidden_dim)`.

    Example:
    ```python
    lm = keras_txl.models.TransformerXLCausalLM(backbone)
    stream = keras_txl.data.SegmentStream(ids, batch_size=4, segment_length=8)
    lm.fit(stream)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860).
    """

    backbone_cls = TransformerXLBackbone
    preprocessor_cls = TransformerXLCausalLMPreprocessor

    def __init__(
        self,
        backbone: TransformerXLBackbone,
        preprocessor: Any = None,
        **kwargs: Any,
    ) -> None:
        check_keywords("TransformerXLCausalLM", kwargs, KEYWORDS)
        if backbone.vocabulary_size is None:
            raise ValueError(
                "A language model needs a backbone with a vocabulary. "
                f"Received: feature_dim={backbone.feature_dim}. Put a head of "
                "your own on `backbone.output`, in a "
                "`keras_txl.models.StatefulModel`."
            )

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        head = LanguageModelHead(backbone)
        self.head = head
        self.output_bias = head.output_bias
        self.adaptive_softmax = head.adaptive_softmax
        self.token_metrics = TokenMetrics()

        # === Functional Model ===
        inputs = backbone.input
        outputs = head.graph_output(backbone(inputs), inputs["document_ids"])
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.candidate_seed = head.seed_generator  # no part of the graph

    def normalize_inputs(self, inputs: Any) -> dict[str, Tensor]:
        return normalize_inputs(inputs)

    def logits(self, inputs: Any, training: bool = False) -> Tensor:
        """Logits of a call, also where the call returns hidden states.

        Args:
            inputs: as in a call, which it is: memory advances.
            training: bool. As in a call.

        Returns:
            Logits `(batch_size, segment_length, vocabulary_size)`, with
            `cutoffs` log-probabilities; zeros on padding.
        """
        inputs = self.normalize_inputs(inputs)
        outputs = self(inputs, training=training)
        if self.head.deferred:
            outputs = self.head.logits(outputs, inputs["document_ids"])
        return outputs

    # === Training ===
    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = None,
        weighted_metrics: Any = "auto",
        sampler: Any = "top_k",
        **kwargs: Any,
    ) -> None:
        """Configure training and generation.

        Args:
            optimizer: a Keras optimizer or its name. `"auto"`: Adam with the
                published rate 2.5e-4 and global gradient norm 0.25.
            loss: `"auto"` is the model's own: nats per target token, padding
                and `sample_weight` left out of the mean. A Keras loss on the
                logits replaces it.
            metrics: Keras metrics that ignore `sample_weight`.
            weighted_metrics: Keras metrics that honour it, and with it
                padding. `"auto"`: `keras_txl.metrics.Perplexity`.
            sampler: a `keras_hub.samplers` sampler or its name, for
                `generate`.
            **kwargs: other arguments of `keras.Model.compile`.
        """
        if isinstance(optimizer, str) and optimizer == "auto":
            optimizer = keras.optimizers.Adam(2.5e-4, global_clipnorm=0.25)
        if isinstance(loss, str) and loss == "auto":
            loss = None
        if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
            weighted_metrics = [Perplexity(name="perplexity")]
        if self.head.deferred:
            check_deferred_loss(loss)
            self.token_metrics = TokenMetrics(metrics, weighted_metrics)
            metrics = weighted_metrics = None
        super().compile(
            optimizer=optimizer,
            loss=loss,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            sampler=sampler,
            **kwargs,
        )

    @property
    def metrics(self) -> list[Any]:
        return [*super().metrics, *self.token_metrics.metrics]

    def get_compile_config(self) -> dict[str, Any] | None:
        config: dict[str, Any] | None = super().get_compile_config()
        if config and self.head.deferred:
            config.update(self.token_metrics.compile_config())
        return config

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor = None,
        y_pred: Tensor = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        """Mean of the token losses, in nats, over tokens that count."""
        if self.loss is not None:
            return super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
        # Read before replicas exchange anything: Keras keeps what layers add
        # in one list, which the next replica empties when its turn comes.
        added = [share_of_replica(loss) for loss in self.losses]
        document_ids = self.normalize_inputs(x)["document_ids"]
        if self.head.deferred:  # `y_pred` is the hidden state
            losses = self.head.token_losses(y_pred, y, document_ids, training)
        else:
            losses = logit_losses(y, y_pred, document_ids)  # (B, T)
        weights = valid = ops.cast(document_ids >= 0, losses.dtype)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, losses.dtype)
            if len(sample_weight.shape) == 1:
                sample_weight = sample_weight[:, None]
            weights = weights * sample_weight
        self.token_metrics.add_losses(losses, valid, weights)
        total = ops.sum(losses * weights)
        count = sum_over_replicas(ops.sum(weights))
        mean = total / ops.where(count > 0, count, 1)
        return ops.sum(ops.stack([mean, *added]))

    def graph_for_batch(
        self, batch_size: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        """A graph over the same weights with banks of another size."""
        inputs, hidden = self.backbone.graph_for_batch(batch_size)
        return inputs, self.head.graph_output(hidden, inputs["document_ids"])

    def _loop(self, name: str, x: Any) -> Any:
        """Text goes through KerasHub, all else straight to Keras."""
        if self.preprocessor is not None and holds_text(x):
            if self.memory_batch_size is not None:
                raise ValueError(
                    "Texts are documents of their own, and a model with "
                    "memory would read row r of a batch as the continuation "
                    f"of row r before. Received: text for `{name}`, and a "
                    f"model with batch_size={self.memory_batch_size}. Encode "
                    "the texts and pass a `keras_txl.data.SegmentStream`, or "
                    "build the model with batch_size=None."
                )
            return getattr(keras_hub.models.CausalLM, name).__get__(self)
        stream = getattr(x, "stream", x)  # of its `repeat()`
        if isinstance(stream, SegmentStream):
            vocabulary_size = self.backbone.vocabulary_size
            largest = np.array([stream.largest_id])
            check_range("documents", largest, vocabulary_size)
        return functools.partial(getattr(keras.Model, name), self)

    def get_quantization_layer_structure(self, mode: str) -> Any:
        """What Keras runs to calibrate `"gptq"` and `"awq"`: without memory."""
        return {
            "pre_block_layers": [self.backbone.embed],
            "sequential_blocks": self.backbone.transformer_layers,
        }
