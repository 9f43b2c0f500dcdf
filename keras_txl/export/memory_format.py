"""How memory travels between a client and the graph.

Hidden states are kept as float32, in a half of the bytes as bfloat16, or in a
quarter as int8 with one float32 scale for each state: the largest absolute
value of a state is 127. A state that only moves to an older slot keeps its
numbers, so nothing gets worse with age.

Axes: B rows, L layers, M memory slots, D hidden width.
"""

from collections.abc import Mapping
from typing import Any

from keras_txl.aliases import Tensor

MEMORY_FORMATS = ("float32", "bfloat16", "int8")
LARGEST = 127


def check_memory_format(memory_format: Any) -> str:
    """Return the format, if it is one.

    Raises:
        ValueError: if it is none.
    """
    if memory_format not in MEMORY_FORMATS:
        raise ValueError(
            f"`memory_format` must be one of {', '.join(MEMORY_FORMATS)}. "
            f"Received: memory_format={memory_format!r}. float32 is exact."
        )
    return str(memory_format)


def memory_shapes(
    memory_format: str, num_layers: int, memory_length: int, hidden_dim: int
) -> dict[str, tuple[tuple[int | None, ...], str]]:
    """Shape and dtype of the tensors that hold the states, by name."""
    slots = (None, num_layers, memory_length)
    shapes: dict[str, tuple[tuple[int | None, ...], str]] = {
        "memory": ((*slots, hidden_dim), memory_format)
    }
    if memory_format == "int8":
        shapes["memory_scale"] = (slots, "float32")
    return shapes


def encode_states(
    states: Tensor, memory_format: str, prefix: str = ""
) -> dict[str, Tensor]:
    """States `(B, L, M, D)` as the tensors that hold them.

    Args:
        states: float tensor of shape `(batch, num_layers, memory_length,
            hidden_dim)`.
        memory_format: one of `MEMORY_FORMATS`.
        prefix: of the names.

    Returns:
        `memory`, and for int8 `memory_scale (B, L, M)`.
    """
    from keras import ops

    if memory_format != "int8":
        return {f"{prefix}memory": ops.cast(states, memory_format)}
    states = ops.cast(states, "float32")
    scale = ops.max(ops.abs(states), axis=-1) / LARGEST  # (B, L, M)
    divisor = ops.where(scale > 0, scale, 1)
    return {
        f"{prefix}memory": ops.cast(
            ops.round(states / divisor[..., None]), "int8"
        ),
        f"{prefix}memory_scale": scale,
    }


def decode_states(tensors: Mapping[str, Tensor], dtype: str) -> Tensor:
    """States `(B, L, M, D)` of a dtype from the tensors that hold them."""
    from keras import ops

    states = tensors["memory"]
    if "memory_scale" in tensors:
        states = (
            ops.cast(states, "float32") * tensors["memory_scale"][..., None]
        )
    return ops.cast(states, dtype)
