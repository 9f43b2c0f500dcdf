"""Memory in layers: what the functional graph uses in place of values.

`value_memory.py` is its counterpart. Axes: B rows, T segment, D hidden width.
"""

from typing import Any

import keras

from keras_txl.aliases import Tensor
from keras_txl.layers.segment_memory import SegmentMemory
from keras_txl.models.token_inputs import FEATURES
from keras_txl.models.token_inputs import TOKEN_IDS


class LayerMemoryMixin:
    """The graph of a model whose `run` asks for contexts."""

    memory_layers: list[SegmentMemory]
    feature_dim: int | None
    run: Any

    def build_graph(
        self, memory_layers: list[SegmentMemory]
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Symbolic inputs and output of the model over these memories."""

        def remember(
            index: int, hidden: Tensor, document_ids: Tensor
        ) -> tuple[Tensor, Tensor]:
            context, length = memory_layers[index](hidden, document_ids)
            return context, length

        if self.feature_dim is None:
            values = keras.Input((None,), dtype="int32", name=TOKEN_IDS)
        else:
            values = keras.Input((None, self.feature_dim), name=FEATURES)
        document_ids = keras.Input((None,), dtype="int32", name="document_ids")
        inputs = {values.name: values, "document_ids": document_ids}
        return inputs, self.run(inputs, remember, training=None)

    def graph_for_batch(
        self, batch_size: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        """A graph over the same weights with banks of another size."""
        memory_layers = [
            SegmentMemory.from_config(
                {**memory.get_config(), "batch_size": batch_size}
            )
            for memory in self.memory_layers
        ]
        return self.build_graph(memory_layers)
