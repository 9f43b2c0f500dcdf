"""What the schemes of `position` let a distance or position add, in float64.

Written from the definitions: Dai et al. 2019 (arXiv 1901.02860), Shaw et al.
2018 (arXiv 1803.02155), and the released code's attn_type 1 to 3, except that
positions are never added into memory.

Axes: D hidden width, N heads, H head width, R rows of a table.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.oracles.attention_oracle import distance_encoding

Read = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class DistanceTerms:
    """Of one distance: `key` and `value` `(N, H)`, `bias` `(N,)`."""

    key: np.ndarray
    bias: np.ndarray
    value: np.ndarray


def distance_terms(
    position: str, clamp_length: int | None, w: Read, distance: int
) -> DistanceTerms:
    """What one distance adds to the scores and values of every head.

    Args:
        position: name of the scheme.
        clamp_length: larger distances count as this one; of a table it is
            the number of rows in use, so one less can be told apart.
        w: gives a weight of the layer by its name.
        distance: in tokens.
    """
    hidden_dim, num_heads, head_dim = w("query").shape
    key = np.zeros((num_heads, head_dim))
    value = np.zeros((num_heads, head_dim))
    bias = np.zeros(num_heads)
    if position == "relative_sinusoidal":
        if clamp_length is not None:
            distance = min(distance, clamp_length)
        encoding = distance_encoding([distance], hidden_dim)[0]
        key = np.einsum("d,dnh->nh", encoding, w("relative_key"))
        for n in range(num_heads):
            bias[n] = w("position_bias")[n] @ key[n]
    elif position == "relative_learned":
        key = table_row(w("distance_keys"), clamp_length, distance)
        bias = table_row(w("distance_biases"), clamp_length, distance)
    elif position == "relative_clipped":
        for n in range(num_heads):
            key[n] = table_row(w("distance_keys"), None, distance)
            value[n] = table_row(w("distance_values"), None, distance)
    return DistanceTerms(key, bias, value)


def add_positions(
    position: str,
    clamp_length: int | None,
    w: Read,
    layer: int,
    memory: list[np.ndarray],
    x: list[np.ndarray],
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Memory and segment as a layer with absolute positions reads them.

    The newest token has position 0. Sinusoids are added in front of the
    first layer, learned rows in front of each.
    """
    context = memory + x
    added = []
    for place, state in enumerate(context):
        number = len(context) - 1 - place
        if position == "absolute_learned":
            state = state + table_row(w("positions"), clamp_length, number)
        elif position == "absolute_sinusoidal" and layer == 0:
            if clamp_length is not None:
                number = min(number, clamp_length)
            state = state + distance_encoding([number], len(state))[0]
        added.append(state)
    return added[: len(memory)], added[len(memory) :]


def table_row(
    table: np.ndarray, clamp_length: int | None, number: int
) -> np.ndarray:
    """Row of a table whose last row is number 0; larger ones share a row."""
    rows = len(table)
    if clamp_length is not None:
        rows = min(rows, clamp_length)
    return table[len(table) - 1 - min(number, rows - 1)]
