"""Where numbers of two layers meet that may compute in different types.

A `DTypePolicyMap` gives each layer a policy of its own. Keras casts what a
layer is called with, and nothing that comes back from one: PyTorch refuses
the product of two types then, and TensorFlow their sum.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor


def in_type_of(layer: Any, tensor: Tensor) -> Tensor:
    """What another layer returned, in the type in which this one computes.

    Args:
        layer: a Keras layer, built.
        tensor: float tensor of any shape.

    Returns:
        The tensor in the compute dtype of the layer.
    """
    return ops.cast(tensor, layer.compute_dtype)


def has_several_types(layer: Any) -> bool:
    """Whether a `DTypePolicyMap` gives each layer inside a type by its path."""
    policy = layer.dtype_policy
    return isinstance(policy, keras.dtype_policies.DTypePolicyMap)
