"""Learning rates that differ from layer to layer.

A model that is fine-tuned changes most at its head and least at its
embedding. Each variable has a factor; what a step of the optimizer would add
to it, weight decay included, is multiplied by that.
"""

import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_txl.checks import check_positive
from keras_txl.checks import check_weight


class LayerRatesMixin:
    """An optimizer whose steps are multiplied by a factor a variable.

    It stands before the class of the optimizer, which must be one whose steps
    are proportional to the learning rate (all of Keras' are but Adadelta).
    """

    variables_to_rate: tuple[Any, ...]

    def __init__(
        self,
        *args: Any,
        rate_factors: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.rate_factors = {
            pattern: check_weight("rate_factors", factor)
            for pattern, factor in (rate_factors or {}).items()
        }
        self.frozen: frozenset[str] = frozenset()
        """Paths of variables that stay as they are for now."""

    def rate_factor(self, variable: Any) -> float:
        """Factor of the first pattern found in the path; else 1."""
        if variable.path in self.frozen:
            return 0.0
        for pattern, factor in self.rate_factors.items():
            if re.search(pattern, variable.path):
                return factor
        return 1.0

    def build(self, variables: Sequence[Any]) -> None:
        base: Any = super()
        base.build(variables)
        # Past the tracking of Keras, which would take what an optimizer has
        # as attributes for variables of its own.
        object.__setattr__(self, "variables_to_rate", tuple(variables))

    def apply(
        self, grads: Iterable[Any], trainable_variables: Any = None
    ) -> None:
        variables = (
            self.variables_to_rate
            if trainable_variables is None
            else list(trainable_variables)
        )
        factors = [self.rate_factor(variable) for variable in variables]
        # Zeros, so that a frozen gradient is no part of the norm that is
        # clipped; a compiler need not compute it at all.
        grads = [
            ops.zeros(variable.shape, dtype=variable.dtype)
            if factor == 0 and grad is not None
            else grad
            for grad, variable, factor in zip(
                grads, variables, factors, strict=True
            )
        ]
        before = [
            None if factor == 1 else ops.stop_gradient(ops.copy(variable.value))
            for variable, factor in zip(variables, factors, strict=True)
        ]
        base: Any = super()
        base.apply(grads, trainable_variables)
        for variable, factor, old in zip(
            variables, factors, before, strict=True
        ):
            if factor == 0:
                variable.assign(old)
            elif old is not None:
                variable.assign(old + factor * (variable.value - old))

    def get_config(self) -> dict[str, Any]:
        base: Any = super()
        return {**base.get_config(), "rate_factors": self.rate_factors}


@keras.saving.register_keras_serializable(package="keras_txl")
class LayerRatesAdam(LayerRatesMixin, keras.optimizers.Adam):
    """`keras.optimizers.Adam` with `rate_factors`."""


@keras.saving.register_keras_serializable(package="keras_txl")
class LayerRatesAdamW(LayerRatesMixin, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with `rate_factors`."""


@keras.saving.register_keras_serializable(package="keras_txl")
class LayerRatesLamb(LayerRatesMixin, keras.optimizers.Lamb):
    """`keras.optimizers.Lamb` with `rate_factors`."""


def layerwise_decay(model: Any, decay: float) -> dict[str, float]:
    """Factors of the learning rate that fall from the head to the embedding.

    What stands behind the backbone has 1, the last block `decay`, the block
    before it `decay**2` and so on; the embedding and what blocks share, one
    power more than the first block.

    Args:
        model: a model with a `TransformerXLBackbone` as `backbone`.
        decay: float above 0. 1: all alike.

    Returns:
        Dict from regular expressions on the path of a variable to factors,
        for `make_optimizer(rate_factors=...)`.

    Raises:
        ValueError: if `decay` is no number above 0.

    Example:

    >>> factors = layerwise_decay(lm, 0.5)
    >>> [factors[f"transformer_layer_{index}/"] for index in (0, 1)]
    [0.25, 0.5]
    >>> optimizer = make_optimizer("adamw", 1e-4, rate_factors=factors)

    Reference:
        Howard and Ruder 2018 (arXiv 1801.06146), section 3.2.
    """
    check_positive("decay", decay)
    num_layers = model.backbone.num_layers
    # First, as the first pattern counts: a table of distances that all blocks
    # share has the path of the block that made it.
    factors = {
        f"^{re.escape(variable.path)}$": decay ** (num_layers + 1)
        for variable in variables_by_depth(model)[0]
    }
    for index in range(num_layers):
        factors[f"transformer_layer_{index}/"] = decay ** (num_layers - index)
    return factors


def variables_by_depth(model: Any) -> list[list[Any]]:
    """Trainable variables: of the embedding and what blocks share, of each
    block, and of what stands behind the backbone."""
    backbone = model.backbone
    groups: list[list[Any]] = [[] for _ in range(backbone.num_layers + 2)]
    depths: dict[int, int] = {}
    for index, block in enumerate(backbone.transformer_layers):
        for variable in block.trainable_variables:
            shared = id(variable) in depths  # such as clipped distances
            depths[id(variable)] = 0 if shared else index + 1
    if backbone.attention_biases is not None:  # blocks have them, too
        for variable in backbone.attention_biases.trainable_variables:
            depths[id(variable)] = 0
    inside = {id(variable) for variable in backbone.trainable_variables}
    for variable in model.trainable_variables:
        own = 0 if id(variable) in inside else len(groups) - 1
        groups[depths.get(id(variable), own)].append(variable)
    return groups
