"""What the quantization of Keras needs beyond itself."""

import re
from typing import Any


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
            ValueError: if the model is quantized already.
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
        # They have compiled functions over the weights that were.
        self.__dict__.pop("_evaluation_twins", None)


def is_wanted(layer: Any, filters: Any) -> bool:
    """Whether a filter of `keras.Model.quantize` lets a layer through."""
    if filters is None:
        return True
    if callable(filters):
        return bool(filters(layer))
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
