"""Keras's layers that hold matrices, with quantized weights written whole.

Keras 3.15 leaves the zero points of `"gptq"` and `"awq"` out of every file,
and the scales of a model that was itself loaded in a quantized form; neither
file can be read. What these layers write is what Keras reads.
"""

from typing import Any

import keras


class _WritesWhole:
    """Stands before a layer of Keras with `variable_serialization_spec`."""

    quantization_mode: str | None
    lora_enabled: bool
    variable_serialization_spec: dict[str | None, list[str]]
    variables: list[Any]

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: Any = None,
    ) -> None:
        base: Any = super()  # which refuses classes derived from its own
        base.quantize(mode, type_check=False, config=config)

    def save_own_variables(self, store: Any) -> None:
        mode = self.quantization_mode
        if mode is None or self.lora_enabled:
            base: Any = super()
            base.save_own_variables(store)
            return
        # The attributes of these two may be computed from the variables.
        own = {variable.name: variable for variable in self.variables}
        stored = [
            own[name]
            if name in ("kernel", "embeddings")
            else getattr(self, name, None)
            for name in self.variable_serialization_spec[mode]
        ]
        stored = [variable for variable in stored if variable is not None]
        for index, variable in enumerate(stored):
            store[str(index)] = variable


class Dense(_WritesWhole, keras.layers.Dense):
    """`keras.layers.Dense`."""


class EinsumDense(_WritesWhole, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense`."""


class Embedding(_WritesWhole, keras.layers.Embedding):
    """`keras.layers.Embedding`."""


class ReversibleEmbedding(_WritesWhole, keras.layers.ReversibleEmbedding):
    """`keras.layers.ReversibleEmbedding`."""
