"""Type aliases of the package.

Keras carries no type marker and a tensor is another class on each backend,
so the aliases document intent; shapes and dtypes stand in the docstrings.
"""

from typing import Any

Tensor = Any
"""A backend tensor, NumPy array or `KerasTensor`."""

Memory = dict[str, Any]
"""A memory value, batch first.

| key        | shape                       | dtype                     |
|------------|-----------------------------|---------------------------|
| `states`   | (B, num_layers, M, D)       | `memory_dtype`            |
| `length`   | (B,)                        | int32, valid newest slots |
| `document` | (B,)                        | int32, -1 when fresh      |
"""
