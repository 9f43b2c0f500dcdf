"""What the quantization of Keras needs beyond itself."""

import re
from typing import Any

from keras import ops

LARGEST_ZERO_POINT = 127
"""A larger one was below 0 before PyTorch made a uint8 of it."""


class QuantizationMixin:
    """`quantize` for a `keras.Model`, before which it stands."""

    def quantize(
        self,
        mode: str | None = None,
        config: Any = None,
        filters: Any = None,
        **kwargs: Any,
    ) -> None:
        """Quantize the matrices of the model in place.

        Norms, biases, memory, positions and tokenizers have no quantized
        form and are left alone, as is the last layer of a classifier.

        Args:
            mode: `"int8"`, `"int4"`, `"float8"`, `"gptq"` or `"awq"`. May be
                left out with `config`.
            config: a `keras.quantizers.QuantizationConfig`, which `"gptq"`
                and `"awq"` need.
            filters: which layers: a regular expression for their names, a
                list of these, or a function of a layer. `None`: all.
            **kwargs: other arguments of `keras.Model.quantize`.

        Raises:
            ValueError: if the model is quantized already, or what Keras made
                of it is wrong.
        """
        mode = mode or config.mode

        last = getattr(self, "output_dense", None)  # no policy of its own

        def has_form(layer: Any) -> bool:
            # Keras would warn of each other layer, and refuse a tokenizer.
            forms = getattr(layer, "variable_serialization_spec", ())
            if mode not in forms or layer is last:
                return False
            return is_wanted(layer, filters)

        base: Any = super()
        base.quantize(mode, config, filters=has_form, **kwargs)
        if mode in ("gptq", "awq"):
            check_zero_points(self, mode)
        # They have compiled functions over the weights that were.
        self.__dict__.pop("_evaluation_twins", None)


def check_zero_points(model: Any, mode: str) -> None:
    """Raise `ValueError` where a calibrated matrix is not what it was.

    Keras 3.15 gives a group of weights that have one sign a zero point below
    0, or far above all numbers of 4 bits. TensorFlow and JAX take 0 for the
    former, PyTorch wraps around.
    """
    for variable in model.variables:
        if variable.name != "kernel_zero" or variable.dtype != "uint8":
            continue
        largest = int(ops.convert_to_numpy(variable).max())
        if largest > LARGEST_ZERO_POINT:
            symmetric = ", or symmetric=True" if mode == "gptq" else ""
            raise ValueError(
                "Each group of weights must have both signs: Keras makes a "
                f"wrong zero point of others. Received: {largest} in "
                f"{variable.path}. Load the wide model again, and quantize it "
                f"with a larger `group_size`, such as 32{symmetric}."
            )


def is_wanted(layer: Any, filters: Any) -> bool:
    """Whether a filter of `keras.Model.quantize` lets a layer through."""
    if filters is None:
        return True
    if callable(filters):
        return bool(filters(layer))
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
