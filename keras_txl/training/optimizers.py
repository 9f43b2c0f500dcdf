"""Optimizers of Keras with the settings that language models are given."""

from collections.abc import Mapping
from typing import Any

import keras

from keras_txl.checks import check_optional_integer
from keras_txl.checks import check_positive
from keras_txl.training.layer_rates import LayerRatesAdam
from keras_txl.training.layer_rates import LayerRatesAdamW
from keras_txl.training.layer_rates import LayerRatesLamb

OPTIMIZERS = ("adam", "adamw", "lamb")

# Ends of the names of variables, which TensorFlow gives with their path and
# an index.
NO_WEIGHT_DECAY = (
    r"(bias|gamma|beta|embeddings|table(_\d+)?)(/replica_\d+)?(:\d+)?$"
)
"""Names of variables that are not decayed: biases (u and v too), gains of
norms, tables of tokens and of distances."""


def make_optimizer(
    name: str,
    learning_rate: Any,
    *,
    weight_decay: float = 0.0,
    global_clipnorm: float | None = 0.25,
    gradient_accumulation_steps: int | None = None,
    rate_factors: Mapping[str, float] | None = None,
    **kwargs: Any,
) -> Any:
    """An optimizer of Keras, set up for a Transformer-XL.

    Matrices decay, everything else does not: no bias, u and v included, no
    gain of a norm, no table of tokens or distances. Keras keeps that out of
    the configuration of an optimizer: call this again for a model loaded from
    a `.keras` file.

    With `gradient_accumulation_steps=k` the weights change at each k-th
    segment, by the mean gradient of k consecutive segments. Memory advances
    with each segment all the same, and schedules count segments.

    Args:
        name: `"adam"`, `"adamw"` (the same, by convention with decay) or
            `"lamb"` (for large batches).
        learning_rate: float or a schedule.
        weight_decay: float. Share of a weight taken off in a step, times the
            learning rate: apart from the gradient (Loshchilov and Hutter
            2019), which for `"lamb"` means outside of its trust ratio.
        global_clipnorm: float. The norm of all gradients together is cut to
            this; the released runs have 0.25. `None`: no clipping.
        gradient_accumulation_steps: int or `None`. Segments that make up one
            change of the weights.
        rate_factors: dict from regular expressions to floats. The factor of
            the first one found in the path of a variable multiplies its
            learning rate; the others have 1. See `layerwise_decay`. `None`:
            a plain optimizer of Keras.
        **kwargs: other arguments of the Keras optimizer, such as `beta_2`.

    Returns:
        A `keras.optimizers.Adam`, `AdamW` or `Lamb`, or a subclass of it.

    Raises:
        ValueError: if the name is unknown or an argument is out of range.

    Example:

    ```python
    schedule = keras_txl.training.warmup_cosine_decay(
        2.5e-4, total_steps=10_000, warmup_steps=500
    )
    optimizer = keras_txl.training.make_optimizer(
        "adamw", schedule, weight_decay=0.01, gradient_accumulation_steps=4
    )
    lm.compile(optimizer=optimizer)
    ```

    Reference:
        You et al. 2020 (arXiv 1904.00962) for LAMB.
    """
    if name not in OPTIMIZERS:
        raise ValueError(
            f"`name` must be one of {', '.join(map(repr, OPTIMIZERS))}. "
            f"Received: name={name!r}. Pass any other optimizer of Keras to "
            "`compile` itself."
        )
    if weight_decay != 0:
        check_positive("weight_decay", weight_decay)
    if global_clipnorm is not None:
        check_positive("global_clipnorm", global_clipnorm)
    steps = check_optional_integer(
        "gradient_accumulation_steps", gradient_accumulation_steps, 1
    )
    classes: dict[str, Any] = {
        "adam": keras.optimizers.Adam,
        "adamw": keras.optimizers.AdamW,
        "lamb": keras.optimizers.Lamb,
    }
    if rate_factors is not None:
        classes = {
            "adam": LayerRatesAdam,
            "adamw": LayerRatesAdamW,
            "lamb": LayerRatesLamb,
        }
        kwargs["rate_factors"] = rate_factors
    optimizer = classes[name](
        learning_rate,
        weight_decay=weight_decay if name == "adamw" else weight_decay or None,
        global_clipnorm=global_clipnorm,
        # Keras refuses 1, which means the same as none.
        gradient_accumulation_steps=None if steps == 1 else steps,
        **kwargs,
    )
    optimizer.exclude_from_weight_decay(var_names=[NO_WEIGHT_DECAY])
    return optimizer
