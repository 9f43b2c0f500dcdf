"""Adaptive embedding and softmax in NumPy, float64, one token at a time.

Bin 0 is `[0, cutoffs[0])`; tail i is `[cutoffs[i - 1], cutoffs[i])`, the last
one reaches to the end of the vocabulary.

| name                  | shape    | meaning                                  |
|-----------------------|----------|------------------------------------------|
| `table_i`             | (V_i, E_i) | rows of bin i; `table_0` alone: of all |
| `projection_i`        | (E_i, D) | absent where the widths are equal        |
| `output_table_i`      | as above | equal to `table_i` where tied            |
| `output_projection_i` | (D, E_i) | transpose of the other where tied        |
| `output_bias`         | (V,)     |                                          |
| `cluster_kernel`      | (K, E_0) | one row for each tail, first to last     |
| `cluster_bias`        | (K,)     |                                          |
"""

from collections.abc import Sequence

import numpy as np

from tests.oracles.model_oracle import Weights


def bin_of(token: int, cutoffs: Sequence[int]) -> int:
    """Bin of a token."""
    return sum(token >= cutoff for cutoff in cutoffs)


def embed_token(
    weights: Weights, cutoffs: Sequence[int], token: int
) -> np.ndarray:
    """The embedding `(D,)` of a token, not scaled."""
    row, table, index = _row(weights, cutoffs, "table", token)
    embedded = table[row]
    if "projection_0" in weights:
        embedded = embedded @ _float64(weights, f"projection_{index}")
    return embedded


def log_prob(
    weights: Weights, cutoffs: Sequence[int], state: np.ndarray, token: int
) -> float:
    """Log-probability of a token behind a hidden state `(D,)`."""
    edges = [0, *cutoffs, len(weights["output_bias"])]
    bias = _float64(weights, "output_bias")
    projected = _project(weights, state, 0)
    scores = []
    for word in range(cutoffs[0]):
        row, table, _ = _row(weights, cutoffs, "output_table", word)
        scores.append(table[row] @ projected + bias[word])
    for tail in range(len(cutoffs)):
        kernel = _float64(weights, "cluster_kernel")[tail]
        scores.append(
            kernel @ projected + _float64(weights, "cluster_bias")[tail]
        )
    bin_number = bin_of(token, cutoffs)
    if bin_number == 0:
        return _log_softmax(scores, token)
    of_cluster = _log_softmax(scores, cutoffs[0] + bin_number - 1)
    projected = _project(weights, state, bin_number)
    scores = []
    for word in range(edges[bin_number], edges[bin_number + 1]):
        row, table, _ = _row(weights, cutoffs, "output_table", word)
        scores.append(table[row] @ projected + bias[word])
    return of_cluster + _log_softmax(scores, token - edges[bin_number])


def token_losses(
    weights: Weights,
    cutoffs: Sequence[int],
    hidden: np.ndarray,
    targets: np.ndarray,
) -> np.ndarray:
    """-log p(target) `(B, T)` in nats for hidden states `(B, T, D)`."""
    losses = np.zeros(targets.shape)
    for place in np.ndindex(*targets.shape):
        state = hidden[place].astype(np.float64)
        losses[place] = -log_prob(weights, cutoffs, state, int(targets[place]))
    return losses


def dense_embedding(weights: Weights, cutoffs: Sequence[int]) -> np.ndarray:
    """The same embedding as one table `(V, D)`."""
    size = len(weights["output_bias"])
    return np.stack(
        [embed_token(weights, cutoffs, token) for token in range(size)]
    )


def _row(
    weights: Weights, cutoffs: Sequence[int], name: str, token: int
) -> tuple[int, np.ndarray, int]:
    """Place of a token in a table, the table, and its number."""
    if f"{name}_1" not in weights:
        return token, _float64(weights, f"{name}_0"), 0
    index = bin_of(token, cutoffs)
    return (
        token - [0, *cutoffs][index],
        _float64(weights, f"{name}_{index}"),
        index,
    )


def _project(weights: Weights, state: np.ndarray, index: int) -> np.ndarray:
    name = f"output_projection_{index}"
    return state @ _float64(weights, name) if name in weights else state


def _float64(weights: Weights, name: str) -> np.ndarray:
    return weights[name].astype(np.float64)


def _log_softmax(scores: list[float], place: int) -> float:
    top = max(scores)
    total = sum(np.exp(score - top) for score in scores)
    return float(scores[place] - top - np.log(total))
