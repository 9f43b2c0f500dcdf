"""Training losses from a sample of the vocabulary.

Frequent tokens, which have low ids, are drawn more often. Candidates are
drawn without replacement, so as many as there are tokens give the exact loss.

Axes: N tokens, S candidates, D hidden width, E embedding width, V vocabulary.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.aliases import Tensor


def log_uniform_candidates(
    num_sampled: int, vocabulary_size: int, seed: Any
) -> tuple[Tensor, Tensor]:
    """Draw distinct tokens, token k in proportion to log((k + 2) / (k + 1)).

    Each token gets an arrival time, exponential with its probability as the
    rate; the first arrivals are the sample. Given the first time that is not
    in the sample, tau, a token of rate p was in it with probability
    `1 - exp(-p * tau)`, independently of the others.

    Args:
        num_sampled: int S.
        vocabulary_size: int V.
        seed: int or `keras.random.SeedGenerator`.

    Returns:
        int32 candidates of shape `(num_sampled,)`, and float32 logs of the
        probability of each token of the vocabulary `(vocabulary_size,)` to be
        among them.
    """
    log_rates = ops.convert_to_tensor(log_uniform_log_probs(vocabulary_size))
    uniform = keras.random.uniform(
        (vocabulary_size,), minval=1e-7, maxval=1.0, dtype="float32", seed=seed
    )
    # Logs of the arrival times, since these reach over many magnitudes.
    log_times = ops.log(-ops.log(uniform)) - log_rates
    if num_sampled >= vocabulary_size:
        everything = ops.arange(vocabulary_size, dtype="int32")
        return everything, ops.zeros((vocabulary_size,), "float32")
    earliest, candidates = ops.top_k(-log_times, num_sampled + 1)
    log_tau = -earliest[num_sampled]
    log_chances = ops.log(-ops.expm1(-ops.exp(log_rates + log_tau)))
    return ops.cast(candidates[:num_sampled], "int32"), log_chances


def log_uniform_log_probs(vocabulary_size: int) -> np.ndarray:
    """Logs of log((k + 2) / (k + 1)) / log(V + 1), which sum to one."""
    ids = np.arange(vocabulary_size, dtype="float64")
    chances = np.log1p(1 / (ids + 1)) / math.log(vocabulary_size + 1)
    return np.log(chances).astype("float32")


def sampled_token_losses(
    hidden: Tensor,
    projection: Tensor | None,
    table: Tensor,
    bias: Tensor,
    targets: Tensor,
    candidates: Tensor,
    log_chances: Tensor,
) -> Tensor:
    """Minus the log-probability of each target among it and the candidates.

    Every logit is lowered by the log of the chance of its token to be a
    candidate, which makes the best logits those of the whole softmax. A
    candidate that is the target itself does not count against it.

    Args:
        hidden: float tensor of shape `(num_tokens, hidden_dim)`.
        projection: float tensor of shape `(hidden_dim, embedding_dim)`, or
            `None` where both widths are one.
        table: float tensor of shape `(vocabulary_size, embedding_dim)`.
        bias: float tensor of shape `(vocabulary_size,)`.
        targets: int tensor of shape `(num_tokens,)`.
        candidates: int32 tensor of shape `(num_sampled,)`, all distinct.
        log_chances: float tensor of shape `(vocabulary_size,)`.

    Returns:
        Float tensor of shape `(num_tokens,)` in nats.
    """
    targets = ops.cast(targets, "int32")
    if projection is not None:
        hidden = ops.matmul(hidden, ops.cast(projection, hidden.dtype))
    offset = bias - ops.cast(log_chances, bias.dtype)  # (V,)
    rows = ops.cast(ops.take(table, candidates, axis=0), hidden.dtype)
    logits = ops.matmul(hidden, ops.transpose(rows))  # (N, S)
    logits = ops.cast(logits, bias.dtype) + ops.take(offset, candidates)
    hits = targets[:, None] == candidates[None]
    logits = ops.where(hits, float("-inf"), logits)
    rows = ops.cast(ops.take(table, targets, axis=0), hidden.dtype)  # (N, E)
    chosen = ops.einsum("ne,ne->n", hidden, rows)
    chosen = ops.cast(chosen, bias.dtype) + ops.take(offset, targets)
    logits = ops.concatenate([chosen[:, None], logits], axis=-1)
    return ops.logsumexp(logits, axis=-1) - chosen
