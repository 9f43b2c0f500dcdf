"""Compute a layer again for its gradients instead of keeping its values.

`keras.remat` wants a function of tensors alone. A layer that draws dropout
masks is none: the state of its seeds moves on, so that the second computation
would draw other masks (and on JAX could not be traced). Here everything that a
layer reads goes in as a value, and everything that it writes comes out.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor


def call_rematerialized(
    layer: Any, function: Callable[..., Tensor], **tensors: Tensor | None
) -> Tensor:
    """`function(**tensors)`, computed anew in the backward pass.

    The result, its gradients, the losses that are added and the state that
    the seeds are left in are those of a plain call.

    Args:
        layer: the layer whose weights and seeds the function uses.
        function: function of the float tensors, by keyword. It may draw from
            the seeds of `layer` and add losses, but change no other state.
            Tensors that it holds (a mask) get no gradient.
        **tensors: float tensors; those that are `None` are passed on.

    Returns:
        What the function returns.
    """
    given = {name: x for name, x in tensors.items() if x is not None}
    absent = dict.fromkeys(tensors.keys() - given.keys())
    weights = layer.weights
    known = {id(weight) for weight in weights}
    seeds = [seed for seed in layer.variables if id(seed) not in known]
    # A copy: a state of PyTorch is overwritten before it is read again.
    states = [ops.copy(seed.value) for seed in seeds]

    def pure(*values: Tensor) -> tuple[Tensor, ...]:
        inputs = dict(zip(given, values[len(weights) :], strict=True))
        mapping = [
            *zip(weights, values[: len(weights)], strict=True),
            *zip(seeds, states, strict=True),
        ]
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            output = function(**inputs, **absent)
        after = (scope.get_current_value(seed) for seed in seeds)
        return output, *after, *scope.losses

    output, *others = keras.remat(pure)(
        *(ops.convert_to_tensor(weight) for weight in weights),
        *given.values(),
    )
    for seed, state in zip(seeds, others, strict=False):
        seed.assign(state)
    for loss in others[len(seeds) :]:
        layer.add_loss(loss)
    return output
