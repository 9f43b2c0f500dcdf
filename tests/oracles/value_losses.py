"""Losses with memory as a value: what every loop of Keras must repeat."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.tolerances import to_numpy


def segment_losses(
    lm: Any, batches: Iterable[Any], memory_length: int | None = None
) -> list[np.ndarray]:
    """Token losses `(B, T)` in nats of each batch; memory is carried on."""
    losses = []
    memory = None
    for inputs, targets, *_ in batches:
        if memory is None:
            memory = lm.initial_memory(len(targets), memory_length)
        nats, memory = lm.token_losses(inputs, targets, memory)
        losses.append(to_numpy(nats).astype(np.float64))
    return losses


def batch_means(
    lm: Any, batches: Iterable[Any], memory_length: int | None = None
) -> list[float]:
    """Mean loss of the valid tokens of each batch."""
    batches = list(batches)
    losses = segment_losses(lm, batches, memory_length)
    return [
        float((nats * weights).sum() / weights.sum())
        for nats, (_, _, weights) in zip(losses, batches, strict=True)
    ]


def mean_loss(
    lm: Any, batches: Iterable[Any], memory_length: int | None = None
) -> float:
    """The loss that Keras reports: the mean over batches of their means."""
    return float(np.mean(batch_means(lm, batches, memory_length)))
