"""A whole Transformer-XL language model in NumPy, float64, row by row.

Written from Dai et al. 2019 (arXiv 1901.02860) and the rules for documents
and padding. There is no shift, no mask and no fixed-size buffer: each query
collects the tokens it may see in a list and measures the distance to each.

Weights are a plain dict of arrays; `l` is the number of a layer:

| name                                    | shape     | meaning              |
|-----------------------------------------|-----------|----------------------|
| `embedding`                             | (V, E)    | rows of tokens       |
| `embedding_projection`                  | (E, D)    | only when E != D     |
| `layer_l.query`, `.key`, `.value`       | (D, N, H) | W_q, W_kE, W_v       |
| `layer_l.relative_key`                  | (D, N, H) | W_kR                 |
| `layer_l.output`                        | (N, H, D) | heads to residual    |
| `layer_l.content_bias`                  | (N, H)    | u                    |
| `layer_l.position_bias`                 | (N, H)    | v                    |
| `layer_l.distance_keys`                 | (R, N, H) | learned; clipped:    |
|                                         | (R, H)    | one for all heads    |
| `layer_l.distance_biases`               | (R, N)    | learned              |
| `layer_l.distance_values`               | (R, H)    | clipped              |
| `layer_l.positions`                     | (R, D)    | absolute, learned    |
| `layer_l.attention_norm_gain`, `_bias`  | (D,)      |                      |
| `layer_l.memory_norm_gain`, `_bias`     | (D,)      | where there is one   |
| `layer_l.intermediate_kernel`, `_bias`  | (D, F)    |                      |
| `layer_l.feedforward_kernel`, `_bias`   | (F, D)    |                      |
| `layer_l.feedforward_norm_gain`, `_bias`| (D,)      |                      |
| `output_embedding`                      | (V, E)    | equal to the input   |
| `output_projection`                     | (E, D)    | ones where tied      |
| `output_bias`                           | (V,)      |                      |

Which of them exist depends on the scheme of positions; u, v and
`distance_values` that are absent count as zeros. Rows of tables are told in
`position_oracle.py`.
"""

import math
from dataclasses import dataclass

import numpy as np

from tests.oracles.attention_oracle import PADDING
from tests.oracles.attention_oracle import resolve_window
from tests.oracles.attention_oracle import runs_of_row
from tests.oracles.attention_oracle import usable_length
from tests.oracles.position_oracle import Read
from tests.oracles.position_oracle import add_positions
from tests.oracles.position_oracle import distance_terms

Weights = dict[str, np.ndarray]
Memory = dict[str, np.ndarray]


@dataclass(frozen=True)
class OracleConfig:
    """What of the model is not in the shapes of its weights."""

    num_layers: int
    attention_window: int | str | None = None
    clamp_length: int | None = None
    normalize_first: bool = False
    attend_empty_memory: bool = False
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-5
    position: str = "relative_sinusoidal"
    attention_logit_cap: float | None = None
    memory_layer_norm: bool = False


@dataclass(frozen=True)
class OracleResult:
    """Hidden states and logits (zeros at padding), and the new memory.

    `layer_inputs` `(B, L, T, D)` is what each layer received: the raw
    material of memory.
    """

    hidden: np.ndarray
    logits: np.ndarray
    layer_inputs: np.ndarray
    memory: Memory


def empty_memory(
    batch_size: int, num_layers: int, memory_length: int, hidden_dim: int
) -> Memory:
    """A fresh memory."""
    return {
        "states": np.zeros((batch_size, num_layers, memory_length, hidden_dim)),
        "length": np.zeros(batch_size, dtype=int),
        "document": np.full(batch_size, PADDING),
    }


def run_model(
    config: OracleConfig,
    weights: Weights,
    token_ids: np.ndarray,
    document_ids: np.ndarray | None,
    memory: Memory,
) -> OracleResult:
    """One segment. M is taken from `memory["states"]` `(B, L, M, D)`."""
    if document_ids is None:
        document_ids = np.zeros(token_ids.shape, dtype=int)
    batch_size, segment_length = token_ids.shape
    vocabulary_size = weights["output_bias"].shape[0]
    _, num_layers, memory_length, hidden_dim = memory["states"].shape
    hidden = np.zeros((batch_size, segment_length, hidden_dim))
    logits = np.zeros((batch_size, segment_length, vocabulary_size))
    inputs = np.zeros((batch_size, num_layers, segment_length, hidden_dim))
    new_memory = empty_memory(batch_size, num_layers, memory_length, hidden_dim)
    for row in range(batch_size):
        length = int(memory["length"][row])
        document = int(memory["document"][row])
        length = usable_length(document_ids[row], length, document)
        runs = runs_of_row(document_ids[row])
        tokens = [t for t, run in enumerate(runs) if run is not None]
        token_runs = [runs[t] for t in tokens]
        x = [_embed(weights, token_ids[row, t]) for t in tokens]
        for layer in range(num_layers):
            slots = np.asarray(memory["states"][row, layer], dtype=np.float64)
            remembered = list(slots[memory_length - length :])
            empty = memory_length - length if config.attend_empty_memory else 0
            zeros = [np.zeros(hidden_dim) for _ in range(empty)]
            for t, state in zip(tokens, x, strict=True):
                inputs[row, layer, t] = state
            kept = _remember(remembered, x, token_runs, memory_length)
            for age, state in enumerate(reversed(kept)):
                new_memory["states"][row, layer, -1 - age] = state
            new_memory["length"][row] = len(kept)
            # Memory was taken before: positions are never part of it.
            context, x = add_positions(
                config.position,
                config.clamp_length,
                _reader(weights, f"layer_{layer}."),
                layer,
                zeros + remembered,
                x,
            )
            x = run_layer(
                config,
                weights,
                f"layer_{layer}.",
                context,
                x,
                token_runs,
                resolve_window(config.attention_window, memory_length),
            )
        new_memory["document"][row] = (
            document_ids[row, tokens[-1]] if tokens else document
        )
        for t, state in zip(tokens, x, strict=True):
            hidden[row, t] = state
            logits[row, t] = _logits(weights, state)
    return OracleResult(hidden, logits, inputs, new_memory)


def token_losses(
    logits: np.ndarray,
    targets: np.ndarray,
    document_ids: np.ndarray | None = None,
) -> np.ndarray:
    """-log p(target) in nats, `(B, T)`, 0 at padding."""
    losses = np.zeros(targets.shape)
    for row in range(targets.shape[0]):
        for t in range(targets.shape[1]):
            if document_ids is not None and document_ids[row, t] == PADDING:
                continue
            row_logits = logits[row, t]
            top = row_logits.max()
            log_sum = top + np.log(np.sum(np.exp(row_logits - top)))
            losses[row, t] = log_sum - row_logits[targets[row, t]]
    return losses


def _remember(
    remembered: list[np.ndarray],
    x: list[np.ndarray],
    token_runs: list[int],
    memory_length: int,
) -> list[np.ndarray]:
    last_run = token_runs[-1] if token_runs else 0
    kept = list(remembered) if last_run == 0 else []
    for state, run in zip(x, token_runs, strict=True):
        if run == last_run:
            kept.append(state)
    return kept[max(0, len(kept) - memory_length) :]


def _embed(weights: Weights, token_id: int) -> np.ndarray:
    row = np.asarray(weights["embedding"][token_id], dtype=np.float64)
    if "embedding_projection" in weights:
        row = row @ weights["embedding_projection"].astype(np.float64)
    return row * math.sqrt(row.shape[0])


def _logits(weights: Weights, state: np.ndarray) -> np.ndarray:
    if "output_projection" in weights:
        state = weights["output_projection"].astype(np.float64) @ state
    table = weights["output_embedding"].astype(np.float64)
    return table @ state + weights["output_bias"]


def run_layer(
    config: OracleConfig,
    weights: Weights,
    prefix: str,
    memory: list[np.ndarray],
    x: list[np.ndarray],
    token_runs: list[int],
    window: int | None,
) -> list[np.ndarray]:
    """One block over the tokens of one row; memory belongs to run 0."""
    w = _reader(weights, prefix)

    def norm(name: str, state: np.ndarray) -> np.ndarray:
        centred = state - state.mean()
        scale = np.sqrt(np.mean(centred**2) + config.layer_norm_epsilon)
        return centred / scale * w(f"{name}_gain") + w(f"{name}_bias")

    first = config.normalize_first
    context = memory + x
    if first:
        context = [norm("attention_norm", state) for state in context]
    asking = context[len(memory) :]
    if config.memory_layer_norm:  # queries come from what is not normalised
        context = [norm("memory_norm", state) for state in context]
    attended = _attend(config, w, context, asking, token_runs, window)
    outputs = []
    for state, update in zip(x, attended, strict=True):
        state = state + update
        if not first:
            state = norm("attention_norm", state)
        inner = norm("feedforward_norm", state) if first else state
        inner = inner @ w("intermediate_kernel") + w("intermediate_bias")
        inner = _activate(config.activation, inner)
        state = state + inner @ w("feedforward_kernel") + w("feedforward_bias")
        if not first:
            state = norm("feedforward_norm", state)
        outputs.append(state)
    return outputs


def _reader(weights: Weights, prefix: str) -> Read:
    """Gives the weights of a layer; absent biases and values are zeros."""

    def w(name: str) -> np.ndarray:
        optional = ("content_bias", "position_bias", "distance_values")
        if name in optional and prefix + name not in weights:
            like = "distance_keys" if name == "distance_values" else "query"
            shape = weights[prefix + like].shape
            return np.zeros(shape if like == "distance_keys" else shape[1:])
        return weights[prefix + name].astype(np.float64)

    return w


def _attend(config, w, context, asking, token_runs, window):
    """What attention adds to each token of the segment."""
    num_memory = len(context) - len(asking)
    context_runs = [0] * num_memory + list(token_runs)
    hidden_dim, num_heads, head_dim = w("query").shape
    keys = [np.einsum("d,dnh->nh", state, w("key")) for state in context]
    values = [np.einsum("d,dnh->nh", state, w("value")) for state in context]
    terms = [
        distance_terms(config.position, config.clamp_length, w, distance)
        for distance in range(len(context))
    ]
    updates = []
    for i, run in enumerate(token_runs):
        here = num_memory + i
        query = np.einsum("d,dnh->nh", asking[i], w("query"))
        seen = [
            j
            for j in range(here + 1)
            if context_runs[j] == run and (window is None or here - j < window)
        ]
        update = np.zeros(hidden_dim)
        for n in range(num_heads):
            u = w("content_bias")[n]
            scores = []
            for j in seen:
                r = terms[here - j].key[n]
                content_addressing = query[n] @ keys[j][n]  # (a)
                content_dependent_position = query[n] @ r  # (b)
                global_content_bias = u @ keys[j][n]  # (c)
                global_position_bias = terms[here - j].bias[n]  # (d)
                score = (
                    content_addressing
                    + content_dependent_position
                    + global_content_bias
                    + global_position_bias
                )
                score /= math.sqrt(head_dim)
                cap = config.attention_logit_cap
                scores.append(cap * math.tanh(score / cap) if cap else score)
            top = max(scores)
            mass = [math.exp(score - top) for score in scores]
            for j, m in zip(seen, mass, strict=True):
                value = values[j][n] + terms[here - j].value[n]
                head = (m / sum(mass)) * value
                update += head @ w("output")[n]
        updates.append(update)
    return updates


def _activate(name: str, x: np.ndarray) -> np.ndarray:
    if name == "relu":
        return np.maximum(x, 0.0)
    if name == "gelu":
        erf = np.vectorize(math.erf)
        return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))
    raise ValueError(f"no such activation: {name}")
