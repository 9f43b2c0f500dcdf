"""Every variable of a model that training changes, as arrays and back."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.layers.bank_placement import read_whole
from keras_txl.layers.bank_placement import whole_shape
from keras_txl.layers.bank_placement import write_whole


def training_variables(model: Any) -> list[Any]:
    """Every variable that training changes, in a fixed order.

    Weights, memory banks and random states come first, then the optimizer.

    Args:
        model: a compiled model whose optimizer has been built.

    Returns:
        List of Keras variables.
    """
    return [*model.variables, *model.optimizer.variables]


def as_arrays(variables: list[Any], prefix: str) -> dict[str, np.ndarray]:
    """Values of variables under `prefix/number`."""
    return {
        f"{prefix}/{index:05d}": _storable(variable)
        for index, variable in enumerate(variables)
    }


def from_arrays(arrays: Mapping[str, np.ndarray], prefix: str) -> list[Any]:
    """The arrays under `prefix/number`, in their order."""
    names = sorted(name for name in arrays if name.startswith(f"{prefix}/"))
    return [arrays[name] for name in names]


def assign(variables: list[Any], values: list[np.ndarray]) -> None:
    """Give each variable its value."""
    for variable, value in zip(variables, values, strict=True):
        write_whole(variable, value)


def build_optimizer(model: Any) -> None:
    """Make the variables of the optimizer.

    Raises:
        ValueError: if the model is not compiled.
    """
    if model.optimizer is None:
        raise ValueError(
            "The model must be compiled before training goes on. Received: "
            "a model without an optimizer. Call `lm.compile(optimizer=...)` "
            "as for the first run."
        )
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def build_metrics(model: Any, batch: Any) -> None:
    """Make the variables of metrics, as a first step makes them.

    Args:
        model: a compiled model.
        batch: `(inputs, targets, sample_weight)` as in training.
    """
    inputs, targets, sample_weight = batch
    shape = (*targets.shape, *model.output.shape[2:])
    outputs = ops.zeros(shape, dtype=model.output.dtype)
    targets, sample_weight = keras.tree.map_structure(
        ops.convert_to_tensor, (targets, sample_weight)
    )
    model.compute_metrics(inputs, targets, outputs, sample_weight)


def check_variables(
    variables: list[Any], values: list[np.ndarray], paths: list[str], where: str
) -> None:
    """Raise unless stored values fit the variables of a model.

    Args:
        variables: of the model and its optimizer.
        values: stored arrays.
        paths: names of the variables that they come from.
        where: the folder, for the message.
    """
    if len(variables) != len(values):
        raise ValueError(
            "The model and optimizer must be those of the checkpoint. "
            f"Received: {len(variables)} variables, but {where!r} holds "
            f"{len(values)}. Build and compile the model as in the first run."
        )
    for variable, value, path in zip(variables, values, paths, strict=True):
        shape = whole_shape(variable)
        if shape != value.shape:
            raise ValueError(
                "The model and optimizer must be those of the checkpoint. "
                f"Received: {variable.path} of shape {shape}, "
                f"but the checkpoint holds {path} of shape {value.shape}. "
                "Build and compile the model as in the first run."
            )


def _storable(variable: Any) -> np.ndarray:
    value = ops.convert_to_numpy(read_whole(variable))
    # NumPy writes bfloat16 and float8 as raw bytes that it cannot read back;
    # float32 holds them exactly and `assign` casts them back.
    return value.astype("float32") if value.dtype.kind == "V" else value
