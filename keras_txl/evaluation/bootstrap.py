"""Error bars over documents.

Tokens of one document depend on one another, so an interval over tokens is
far too narrow. Documents are drawn with replacement instead, and both
settings are looked at on the same draw (a paired bootstrap).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.evaluation.evaluate_stream import StreamEvaluation


@dataclass(frozen=True)
class BootstrapInterval:
    """A figure in bits per byte with its interval.

    Args:
        estimate: of one evaluation, or first setting minus second.
        low: lower end of the interval.
        high: upper end of the interval.
        confidence: probability that the interval stands for.
        num_documents: documents that were drawn from.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    num_documents: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the sign of the estimate is settled."""
        return self.low > 0 or self.high < 0


def bootstrap_interval(
    evaluation: StreamEvaluation,
    *,
    confidence: float = 0.95,
    num_resamples: int = 9999,
    seed: int = 0,
) -> BootstrapInterval:
    """Interval of one evaluation by drawing documents.

    Args:
        evaluation: an evaluation.
        confidence: probability that the interval stands for.
        num_resamples: number of draws.
        seed: seed of the draws.

    Returns:
        The bits per byte with their percentile interval.

    Raises:
        ValueError: if fewer than two documents have a target.

    Example:

    ```python
    evaluation = keras_txl.evaluation.evaluate_stream(
        lm, documents, segment_length=8, batch_size=2
    )
    interval = bootstrap_interval(evaluation)
    print(interval.low, interval.estimate, interval.high)
    ```
    """
    return _bootstrap(
        evaluation.document_nats, evaluation, confidence, num_resamples, seed
    )


def bootstrap_difference(
    first: StreamEvaluation,
    second: StreamEvaluation,
    *,
    confidence: float = 0.95,
    num_resamples: int = 9999,
    seed: int = 0,
) -> BootstrapInterval:
    """Interval of `first` minus `second` by drawing documents.

    Args:
        first: an evaluation.
        second: an evaluation of the same documents under another setting.
        confidence: probability that the interval stands for.
        num_resamples: number of draws.
        seed: seed of the draws.

    Returns:
        The difference in bits per byte with its percentile interval.

    Raises:
        ValueError: if the evaluations are not of the same documents, or if
            fewer than two documents have a target.

    Example:

    ```python
    interval = bootstrap_difference(with_memory, without_memory)
    print(interval.low, interval.high, interval.excludes_zero)
    ```
    """
    if not np.array_equal(first.document_targets, second.document_targets):
        raise ValueError(
            "Both evaluations must be of the same documents. Received: "
            f"{len(first.document_targets)} documents with "
            f"{first.num_targets} targets, and "
            f"{len(second.document_targets)} documents with "
            f"{second.num_targets} targets."
        )
    nats = first.document_nats - second.document_nats
    return _bootstrap(nats, first, confidence, num_resamples, seed)


def _bootstrap(
    nats: np.ndarray,
    evaluation: StreamEvaluation,
    confidence: float,
    num_resamples: int,
    seed: int,
) -> BootstrapInterval:
    """Draw documents with their `nats` and the sizes of `evaluation`."""
    from scipy import stats

    used = evaluation.document_targets > 0
    num_documents = int(used.sum())
    if num_documents < 2:
        raise ValueError(
            "An interval needs at least 2 documents with a target. Received: "
            f"{num_documents}. Cut the text into smaller documents."
        )
    bits = nats[used] / math.log(2.0)
    sizes = evaluation.document_bytes[used]

    def per_byte(bits: Any, sizes: Any, axis: int = -1) -> Any:
        return bits.sum(axis=axis) / sizes.sum(axis=axis)

    result = stats.bootstrap(
        (bits, sizes),
        per_byte,
        paired=True,
        vectorized=True,
        n_resamples=num_resamples,
        batch=256,  # keeps the table of draws small
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return BootstrapInterval(
        estimate=float(per_byte(bits, sizes)),
        low=float(result.confidence_interval.low),
        high=float(result.confidence_interval.high),
        confidence=confidence,
        num_documents=num_documents,
    )
