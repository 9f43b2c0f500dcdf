"""A Transformer-XL that gives each token a label.

Axes: B rows, T segment, D hidden width, C classes.
"""

from typing import Any

import keras
import numpy as np

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_keywords
from keras_txl.models.stateful_model import StatefulModelMixin


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLTokenClassifier(StatefulModelMixin, keras.Model):
    """Labels every token of inputs of any length, a segment at a time.

    Memory is carried from segment to segment as in a language model: train
    with `fit` on `keras_txl.data.labelled_segments`, with as many streams as
    the backbone has a `batch_size`. A label sees its token and what stands
    before it.

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
        dtype = backbone.dtype_policy
        output_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="output_dropout"
        )
        output_dense = keras.layers.Dense(
            num_classes, activation=activation, dtype=dtype, name="logits"
        )
        inputs = backbone.input
        outputs = output_dense(output_dropout(backbone(inputs)))
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.backbone = backbone
        self.output_dropout = output_dropout
        self.output_dense = output_dense
        self.num_classes = num_classes
        self.activation = keras.activations.get(activation)
        self.dropout = dropout

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

    def get_config(self) -> dict[str, Any]:
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "num_classes": self.num_classes,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "TransformerXLTokenClassifier":
        backbone = keras.saving.deserialize_keras_object(
            config["backbone"], custom_objects
        )
        return cls(**{**config, "backbone": backbone})
