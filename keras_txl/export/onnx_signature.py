"""What a graph for ONNX takes and gives, and which flavours there are.

Axes: B rows, T segment, P past tokens.
"""

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_txl.aliases import Tensor

FLAVOURS = ("hidden", "kv", "kv_ring")

BATCH = "batch_size"
SEGMENT = "sequence_length"
PAST = "past_sequence_length"
TOTAL = "past_sequence_length + sequence_length"


@dataclass(frozen=True)
class Value:
    """An input or output of a graph.

    Args:
        name: in the file.
        shape: sizes; a string names an axis that is free.
        dtype: NumPy's name.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str


@dataclass(frozen=True)
class Graph:
    """A function of tensors and what its file will say of it.

    Args:
        function: takes the inputs in order and returns the outputs in order.
        inputs: of the function.
        outputs: of the function.
        weights: variables that the function reads.
    """

    function: Callable[..., Sequence[Tensor]]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    weights: tuple[Any, ...]


def check_flavour(backbone: Any, flavour: Any, memory_length: int) -> None:
    """Raise `ValueError` unless the model has the flavour."""
    if flavour not in FLAVOURS:
        raise ValueError(
            f"`flavour` must be one of {', '.join(map(repr, FLAVOURS))}. "
            f"Received: flavour={flavour!r}."
        )
    if flavour == "hidden":
        return
    if backbone.position.startswith("absolute"):
        raise ValueError(
            f"flavour={flavour!r} needs relative positions: absolute ones "
            "change all keys with every token. Received: position="
            f"{backbone.position!r}. Use flavour='hidden'."
        )
    if memory_length < 1:
        raise ValueError(
            f"flavour={flavour!r} needs a memory of at least one token. "
            f"Received: memory_length={memory_length}. Pass a longer "
            "`memory_length`, or use flavour='hidden'."
        )


def logits_shape(lm: Any, length: int | str = SEGMENT) -> Any:
    """Sizes of the logits of a graph."""
    return (BATCH, length, lm.backbone.vocabulary_size)
