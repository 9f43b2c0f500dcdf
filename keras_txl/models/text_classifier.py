"""A Transformer-XL that classifies texts of any length.

Axes: B rows, N tokens, D hidden width, C classes.
"""

from collections.abc import Callable
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_keywords
from keras_txl.checks import check_weight
from keras_txl.data.text_batches import TextBatches
from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.class_labels import check_labels
from keras_txl.models.compile_config import CompiledAgainMixin
from keras_txl.models.language_model_head import LanguageModelHead
from keras_txl.models.normalized_inputs import NormalizedInputsMixin
from keras_txl.models.preset_loading import PresetTaskMixin
from keras_txl.models.prompts import holds_text
from keras_txl.models.quantization import QuantizationMixin
from keras_txl.models.replicas import scope_of
from keras_txl.models.text_classifier_preprocessor import (
    TransformerXLTextClassifierPreprocessor,
)
from keras_txl.models.text_encoding import encode_texts
from keras_txl.models.text_reader import POOLINGS
from keras_txl.models.text_reader import TextReader

KEYWORDS = ("name", "trainable", "compile")


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLTextClassifier(
    PresetTaskMixin,
    NormalizedInputsMixin,
    CompiledAgainMixin,
    QuantizationMixin,
    keras_hub.models.TextClassifier,
):
    """A classifier, or a regression, of texts of any length.

    A text is read in segments of `segment_length` tokens, counted from its
    end, each with the memory that those before have left. Memory starts empty
    for each text, and one that fits into a segment does without. Texts of
    different lengths make a batch, and each row has the logits it has alone.

    Gradient reaches the last `gradient_segments` segments of each text; what
    stands before is read once, without dropout, at the cost of an evaluation.
    Time grows with the length of a text, room for it does not.

    `fit`, `evaluate` and `predict` take a list of strings (with a
    `preprocessor`) or of arrays of ids, and batch texts of like length
    together (`keras_txl.data.TextBatches`); and whatever `keras.Model` takes.

    Args:
        backbone: a `TransformerXLBackbone`. Its `memory_length` is how many
            tokens a segment sees of what stands before; its `batch_size` does
            not matter here.
        num_classes: int C. Outputs of the head: classes, labels that may hold
            together, or numbers of a regression, as the loss says.
        preprocessor: a `TransformerXLTextClassifierPreprocessor`, or `None`
            to work on token ids alone.
        segment_length: int. Tokens read at once.
        pooling: `"last"`, the hidden state of the last token, or `"mean"`,
            the mean over all tokens. The last token sees no further back
            than its segment and, layer by layer, `memory_length` tokens
            more; segments before that are not even read.
        gradient_segments: int. Segments at the end of each text that carry
            gradient. With `pooling="last"` and no language-model loss more
            than 1 changes nothing, since memory passes on no gradient.
        language_model_weight: float. Weight of the mean loss in nats of the
            next token in the training loss, over the segments with gradient.
            It is no part of any metric, nor of the loss of an evaluation.
        activation: of the head. Default: none, so the outputs are logits.
        dropout: float. In front of the head.
        **kwargs: `name`, `trainable` and `compile`.

    Call arguments:
        inputs: int ids of shape `(batch, length)`, or a dict of `token_ids`
            and `padding_mask` (or `document_ids`) of that shape; padding may
            stand anywhere.
        training: bool. Turns dropout on.

    Returns:
        Float tensor of shape `(batch, num_classes)`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    ```python
    classifier = keras_txl.models.TransformerXLTextClassifier(
        lm.backbone, num_classes=2, segment_length=4
    )
    texts = [np.arange(9), np.arange(3)]
    classifier.fit(texts, [0, 1], verbose=0)
    classifier.predict(texts, verbose=0).shape  # (2, 2)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.2.
    """

    backbone_cls = TransformerXLBackbone
    preprocessor_cls = TransformerXLTextClassifierPreprocessor
    head_arguments = ("activation", "dropout")

    def __init__(
        self,
        backbone: TransformerXLBackbone,
        num_classes: int,
        preprocessor: Any = None,
        *,
        segment_length: int = 512,
        pooling: str = "last",
        gradient_segments: int = 1,
        language_model_weight: float = 0.0,
        activation: Any = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        check_keywords(type(self).__name__, kwargs, KEYWORDS)
        check_integer("num_classes", num_classes, 1)
        check_integer("segment_length", segment_length, 1)
        check_integer("gradient_segments", gradient_segments, 1)
        check_weight("language_model_weight", language_model_weight)
        check_fraction("dropout", dropout)
        if pooling not in POOLINGS:
            raise ValueError(
                f"`pooling` must be one of {POOLINGS}. Received: "
                f"pooling={pooling!r}."
            )

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.text_reader = TextReader(
            backbone,
            segment_length,
            pooling,
            gradient_segments,
            LanguageModelHead(backbone) if language_model_weight else None,
            language_model_weight,
            dtype=backbone.dtype_policy,
            name="text_reader",
        )
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.output_dense = keras.layers.Dense(
            num_classes,
            activation=activation,
            kernel_initializer=keras.initializers.RandomNormal(
                stddev=backbone.initializer_range
            ),
            dtype=backbone.dtype_policy,
            name="logits",
        )

        # === Config ===
        self.num_classes = num_classes
        self.segment_length = segment_length
        self.pooling = pooling
        self.gradient_segments = gradient_segments
        self.language_model_weight = language_model_weight
        self.activation = keras.activations.get(activation)
        self.dropout = dropout

        # === Functional Model ===
        inputs = backbone.input
        pooled = self.text_reader(inputs)
        outputs = self.output_dense(self.output_dropout(pooled))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def normalize_inputs(self, inputs: Any) -> dict[str, Tensor]:
        return self.backbone.normalize_inputs(inputs)

    # === Training ===
    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = "auto",
        **kwargs: Any,
    ) -> None:
        """Configure training.

        Args:
            optimizer: a Keras optimizer or its name. `"auto"`: Adam with a
                rate of 5e-5.
            loss: a Keras loss or its name. `"auto"`: sparse categorical
                cross-entropy, on logits unless `activation` is a softmax.
            metrics: Keras metrics. `"auto"`: accuracy with the loss
                `"auto"`, none with another.
            **kwargs: other arguments of `keras.Model.compile`.
        """
        own_loss = not (isinstance(loss, str) and loss == "auto")
        automatic = isinstance(metrics, str) and metrics == "auto"
        if metrics is None or (automatic and own_loss):
            metrics = []  # `None` would keep those of an earlier call
        super().compile(optimizer, loss, metrics=metrics, **kwargs)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        validation_data: Any = None,
        shuffle: bool = True,
        **kwargs: Any,
    ) -> Any:
        """`keras.Model.fit`, also for lists of texts.

        Args:
            x: list of strings or of 1-D arrays of ids, a `tf.data.Dataset` of
                batches of `(texts, labels)`, or anything that
                `keras.Model.fit` takes: arrays of padded ids,
                `keras_txl.data.TextBatches`, ...
            y: labels, if `x` does not carry them.
            batch_size: int. Rows of a batch. Default: 32.
            sample_weight: array, a weight for each text.
            validation_data: data in any of these forms, or a tuple `(x, y)`.
            shuffle: bool. Whether each epoch has texts and batches in another
                order.
            **kwargs: other arguments of `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: if labels do not fit the loss and `num_classes`.
        """
        self._check_labels(x, y)
        if isinstance(validation_data, tuple):
            texts, labels, weights = (*validation_data, None)[:3]
            self._check_labels(texts, labels)
            if _is_list_of_texts(texts):
                validation_data = self._batches(
                    texts, labels, weights, batch_size
                )
        else:
            validation_data = self._encoded(validation_data)
        if _is_list_of_texts(x):
            if kwargs.get("validation_split"):
                raise ValueError(
                    "`validation_split` needs arrays. Received: a list of "
                    "texts. Pass validation_data=(texts, labels)."
                )
            x = self._batches(x, y, sample_weight, batch_size, shuffle)
            y = sample_weight = batch_size = None
            shuffle = False  # the batches do so by themselves
        return self._of_keras("fit")(
            self._encoded(x),
            y,
            batch_size=batch_size,
            sample_weight=sample_weight,
            validation_data=validation_data,
            shuffle=shuffle,
            **kwargs,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """`keras.Model.evaluate`, also for lists of texts; see `fit`."""
        self._check_labels(x, y)
        if _is_list_of_texts(x):
            x = self._batches(x, y, sample_weight, batch_size)
            y = sample_weight = batch_size = None
        return self._of_keras("evaluate")(
            self._encoded(x),
            y,
            batch_size=batch_size,
            sample_weight=sample_weight,
            **kwargs,
        )

    def predict(
        self, x: Any, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """`keras.Model.predict`, also for lists of texts; see `fit`.

        Returns:
            Array of shape `(len(x), num_classes)`, in the given order.
        """
        if not _is_list_of_texts(x):
            x = self._encoded(x)
            return self._of_keras("predict")(x, batch_size=batch_size, **kwargs)
        batches = self._batches(x, batch_size=batch_size)
        rows = self._of_keras("predict")(batches, **kwargs)
        return batches.in_given_order(rows)

    def make_train_function(self, force: bool = False) -> Any:
        """As Keras does, once the optimizer has its variables: a callback may
        put back what they were."""
        if self.optimizer is not None and not self.optimizer.built:
            with scope_of(self):
                self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def _check_labels(self, x: Any, y: Any) -> None:
        labels = getattr(x, "labels", None) if y is None else y
        check_labels(labels, self.num_classes, getattr(self, "loss", None))

    def _of_keras(self, name: str) -> Callable[..., Any]:
        """The method of Keras, not of KerasHub, which pads all texts alike."""
        method: Callable[..., Any] = getattr(keras.Model, name).__get__(self)
        return method

    def _batches(
        self,
        texts: Any,
        labels: Any = None,
        sample_weight: Any = None,
        batch_size: int | None = None,
        shuffle: bool = False,
    ) -> TextBatches:
        vocabulary_size = self.backbone.vocabulary_size
        if self.preprocessor is None:
            ids = encode_texts(texts, None, vocabulary_size)
        else:
            ids = self.preprocessor.encode(texts, vocabulary_size)
        return TextBatches(
            ids,
            labels,
            sample_weight,
            batch_size=batch_size or 32,
            segment_length=self.segment_length,
            shuffle=shuffle,
        )

    def _encoded(self, x: Any) -> Any:
        """Data of TensorFlow that hold strings, with ids in their place."""
        if not hasattr(x, "element_spec") or not holds_text(x):
            return x
        return x.map(self.preprocess_samples)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "segment_length": self.segment_length,
            "pooling": self.pooling,
            "gradient_segments": self.gradient_segments,
            "language_model_weight": self.language_model_weight,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
        }


def _is_list_of_texts(x: Any) -> bool:
    """Strings, or arrays of ids that differ in length; or nothing at all."""
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    if kind is not None:  # an array, or a column of a table
        return kind in ("U", "S", "O")
    if not isinstance(x, (list, tuple)):
        return False
    return not x or isinstance(x[0], (str, bytes)) or np.ndim(x[0]) == 1
