"""A Transformer-XL that gives each token a label.

Axes: B rows, T segment, D hidden width, C classes.
"""

import functools
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_keywords
from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.class_labels import check_labels
from keras_txl.models.preset_loading import PresetTaskMixin
from keras_txl.models.stateful_model import StatefulModelMixin


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLTokenClassifier(
    StatefulModelMixin, PresetTaskMixin, keras_hub.models.Task
):
    """Labels every token of inputs of any length, a segment at a time.

    Memory is carried from segment to segment as in a language model: train
    with `fit` on `keras_txl.data.labelled_segments`, with as many streams as
    the backbone has a `batch_size`. A label sees its token and what stands
    before it. It works on token ids alone: a preset of it holds no tokenizer.

    Args:
        backbone: a `TransformerXLBackbone`.
        num_classes: int C. Outputs for each token.
        activation: of the head. Default: none, so the outputs are logits.
        dropout: float. In front of the head.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: as those of the backbone.
        training: bool. Chooses the memory bank and turns dropout on.

    Returns:
        Float tensor of shape `(batch, segment_length, num_classes)`. On
        padding it is meaningless: give those places the weight 0.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    ```python
    model = keras_txl.models.TransformerXLTokenClassifier(
        lm.backbone, num_classes=2
    )
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    document = np.arange(17)
    data = labelled_segments([document], [document % 2], 4, 8)
    model.fit(*data[:2], sample_weight=data[2], verbose=0)
    model.label(document).shape  # (17, 2)
    ```
    """

    backbone_cls = TransformerXLBackbone
    head_arguments = ("activation", "dropout")

    def __init__(
        self,
        backbone: Any,
        num_classes: int,
        activation: Any = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        check_keywords(type(self).__name__, kwargs, ("name", "trainable"))
        check_integer("num_classes", num_classes, 1)
        check_fraction("dropout", dropout)

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = None
        dtype = backbone.dtype_policy
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="output_dropout"
        )
        self.output_dense = keras.layers.Dense(
            num_classes, activation=activation, dtype=dtype, name="logits"
        )

        # === Config ===
        self.num_classes = num_classes
        self.activation = keras.activations.get(activation)
        self.dropout = dropout

        # === Functional Model ===
        inputs = backbone.input
        outputs = self.output_dense(self.output_dropout(backbone(inputs)))
        super().__init__(
            inputs=inputs, outputs=outputs, compile=False, **kwargs
        )

    def normalize_inputs(self, inputs: Any) -> dict[str, Tensor]:
        normal: dict[str, Tensor] = self.backbone.normalize_inputs(inputs)
        return normal

    def graph_for_batch(
        self, batch_size: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        """A graph over the same weights with banks of another size."""
        inputs, hidden = self.backbone.graph_for_batch(batch_size)
        return inputs, self.output_dense(self.output_dropout(hidden))

    def label(self, token_ids: Any, segment_length: int = 512) -> Any:
        """Outputs for every token of one document of any length.

        Args:
            token_ids: 1-D array of int ids.
            segment_length: int. Tokens read at once.

        Returns:
            Array of shape `(len(token_ids), num_classes)`.

        Raises:
            ValueError: if it is no document of at least one token.
        """
        token_ids = np.asarray(token_ids)
        if token_ids.ndim != 1 or not token_ids.size:
            raise ValueError(
                "`token_ids` must be the ids of one document, at least one. "
                f"Received: token_ids.shape={token_ids.shape}. Label several "
                "documents one after the other."
            )
        check_integer("segment_length", segment_length, 1)
        memory = self.backbone.initial_memory(1)
        rows = []
        for begin in range(0, len(token_ids), segment_length):
            segment = token_ids[None, begin : begin + segment_length]
            hidden, memory = self.backbone.call_with_memory(segment, memory)
            rows.append(self.output_dense(hidden)[0])
        return keras.ops.convert_to_numpy(keras.ops.concatenate(rows))

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """`keras.Model.fit` for streams, see `StatefulModelMixin`.

        Raises:
            ValueError: if labels do not fit the loss and `num_classes`.
        """
        self._check_labels(y)
        validation = kwargs.get("validation_data")
        if isinstance(validation, tuple):
            self._check_labels(validation[1])
        return super().fit(x, y, *args, **kwargs)

    def evaluate(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """`keras.Model.evaluate`, from a clean evaluation bank; see `fit`."""
        self._check_labels(y)
        return super().evaluate(x, y, *args, **kwargs)

    def _check_labels(self, labels: Any) -> None:
        loss = getattr(self, "loss", None)
        check_labels(labels, self.num_classes, loss, axes=2)

    def _loop(self, name: str, x: Any) -> Any:
        """The method of Keras: there is nothing to preprocess."""
        return functools.partial(getattr(keras.Model, name), self)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any]
    ) -> "TransformerXLTokenClassifier":
        config = dict(config)
        config.pop("preprocessor", None)  # every task of KerasHub names one
        made: TransformerXLTokenClassifier = super().from_config(config)
        return made
