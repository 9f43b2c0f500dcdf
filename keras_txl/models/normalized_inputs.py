"""Models that accept several forms of input and bring them to one."""

from typing import Any

from keras_txl.aliases import Tensor


class NormalizedInputsMixin:
    """Normalizes what a functional model is called with.

    It stands before the `keras.Model` class among the bases.
    """

    def normalize_inputs(self, inputs: Any) -> Any:
        """Bring any accepted form of input to the form of the graph."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        base: Any = super()
        return base.__call__(self.normalize_inputs(inputs), *args, **kwargs)

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Tensor:
        base: Any = super()
        return base.call(
            self.normalize_inputs(inputs), training=training, mask=mask
        )

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Tensor:
        base: Any = super()
        return base.compute_output_spec(
            self.normalize_inputs(inputs), training=training, mask=mask
        )
