"""Keras's layers that hold matrices, with quantized weights written whole.

Keras 3.15 leaves the zero points of `"gptq"` and `"awq"` out of every file,
and the scales of a model that was itself loaded in a quantized form; neither
file can be read. What these layers write is what Keras reads.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor


class _WritesWhole:
    """Stands before a layer of Keras with `variable_serialization_spec`."""

    quantization_mode: str | None
    lora_enabled: bool
    variable_serialization_spec: dict[str | None, list[str]]
    variables: list[Any]
    compute_dtype: str
    call: Any
    result_dtype: str | None = None

    def answer_in(self, dtype: str) -> None:
        """Return `dtype`, in which the layer around this one computes.

        A `DTypePolicyMap` may have given this one another policy.
        """
        self.result_dtype = None if dtype == self.compute_dtype else dtype

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        base: Any = super()
        outputs = base.__call__(*args, **kwargs)
        if self.result_dtype is None:
            return outputs
        return ops.cast(outputs, self.result_dtype)

    def quantized_call(self, *args: Any, **kwargs: Any) -> Tensor:
        """Below `"gptq"` and `"awq"`, `call` until the layer is calibrated.

        Keras listens there for what the layer is given, but 3.15 calls this
        method: it hears nothing and rounds to the nearest number.
        """
        mode = self.quantization_mode
        if mode in ("gptq", "awq"):
            if not getattr(self, f"is_{mode}_calibrated", False):
                return self.call(*args, **kwargs)
        base: Any = super()
        return base.quantized_call(*args, **kwargs)

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
    """`keras.layers.ReversibleEmbedding`, trainable below quantized logits.

    Keras 3.15 differentiates the rounding of hidden states on their way to
    quantized logits, which stops all of the gradient but that of their scale,
    and it leaves an adapter of the table out of the logits. Here gradient
    passes through the table, as in Keras's other quantized layers.
    """

    def quantized_call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        base = super().quantized_call
        if not reverse or self.quantization_mode not in ("int8", "int4"):
            return base(inputs, reverse)

        @ops.custom_gradient
        def logits_of(hidden: Tensor) -> Any:
            def gradient(*args: Any, upstream: Tensor = None) -> tuple[Tensor]:
                upstream = args[0] if upstream is None else upstream
                unit = ops.eye(self.output_dim, dtype=hidden.dtype)
                table = base(unit, True)  # (D, V), without the scales
                return (ops.matmul(upstream, ops.transpose(table)),)

            return base(hidden, True), gradient

        logits = logits_of(inputs)
        if self.lora_enabled and self.tie_weights:
            low = ops.matmul(inputs, ops.transpose(self.lora_embeddings_b))
            low = ops.matmul(low, ops.transpose(self.lora_embeddings_a))
            logits = logits + (self.lora_alpha / self.lora_rank) * low
        return logits
