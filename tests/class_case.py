"""What every class of the package must do, whatever it computes.

After the test cases of KerasHub (`run_layer_test`, `run_serialization_test`,
`run_precision_test`, `run_model_saving_test`), on public names alone.
"""

import copy
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import keras
import numpy as np
from keras import ops

from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close

NARROW = "mixed_bfloat16"


@dataclass(frozen=True)
class ClassCase:
    """A class, how to make one and what to call it with.

    Args:
        cls: a registered class.
        arguments: of its constructor.
        inputs: positional arguments of a call, as arrays.
        narrow: type of the first result under `mixed_bfloat16`; `None`: the
            class returns no floats, or has no policy.
    """

    cls: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Any, ...] = ()
    narrow: str | None = "bfloat16"

    def __str__(self) -> str:
        return str(self.cls.__name__)

    def make(self, **changes: Any) -> Any:
        return self.cls(**{**self.arguments, **changes})

    def check_configuration(self) -> None:
        """It is a fixed point, and all of it comes back."""
        made = self.make()
        config = made.get_config()
        # KerasHub puts what it revives into the configuration it is given.
        again = self.cls.from_config(copy.deepcopy(config))
        assert again.get_config() == config
        name = keras.saving.get_registered_name(self.cls)
        assert name == f"keras_txl>{self.cls.__name__}"
        revived = keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(made)
        )
        assert type(revived) is self.cls
        assert revived.get_config() == config

    def check_calls(self) -> None:
        """Symbols have the shapes and types of what a call returns; another
        one of the same configuration and weights returns the same."""
        made = self.make()
        symbols = [
            keras.KerasTensor(array.shape, array.dtype.name)
            for array in self.inputs
        ]
        expected = made(*symbols)
        randomize(made, seed=1)
        found = made(*self.inputs)
        keras.tree.map_structure(assert_alike, found, expected)
        again = self.cls.from_config(made.get_config())
        again(*self.inputs)
        again.set_weights(made.get_weights())
        reset(made)
        reset(again)
        keras.tree.map_structure(
            lambda a, b: assert_close(a, b, tolerances.EXACT, str(self)),
            again(*self.inputs),
            made(*self.inputs),
        )

    def check_narrow(self) -> None:
        """Weights stay wide under a mixed policy, results are narrow."""
        made = self.make(dtype=NARROW)
        first = keras.tree.flatten(made(*self.inputs))[0]
        assert keras.backend.standardize_dtype(first.dtype) == self.narrow
        assert {v.dtype for v in made.trainable_weights} <= {"float32"}


def public_classes(*packages: Any) -> set[type]:
    """Layers, models, preprocessors and tokenizers that packages name."""
    named = [
        getattr(package, name)
        for package in packages
        for name in package.__all__
    ]
    return {
        each
        for each in named
        if isinstance(each, type) and issubclass(each, keras.layers.Layer)
    }


def assert_alike(found: Any, symbol: Any) -> None:
    """Shape and type of a tensor are those that a symbol knows."""
    for size, known in zip(ops.shape(found), symbol.shape, strict=True):
        assert known in (None, size)
    assert keras.backend.standardize_dtype(found.dtype) == symbol.dtype


def reset(layer: Any) -> None:
    """Two calls start from the same memory."""
    if hasattr(layer, "reset_state"):
        layer.reset_state()
    if hasattr(layer, "reset_memory"):
        layer.reset_memory()


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def integers(*shape: int, below: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, below, size=shape).astype("int32")
