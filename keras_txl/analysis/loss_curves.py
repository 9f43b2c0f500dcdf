"""Loss by what a token could see: memory, and place in the segment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.evaluate_stream import StreamEvaluation
from keras_txl.evaluation.evaluate_stream import evaluate_stream
from keras_txl.evaluation.protocol import EvaluationProtocol
from keras_txl.evaluation.token_losses import segment_losses


def loss_by_memory_length(
    lm: Any, documents: Any, memory_lengths: Sequence[int], **protocol: Any
) -> dict[int, StreamEvaluation]:
    """Evaluate the same tokens under memories of several lengths.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        memory_lengths: tokens kept in memory.
        **protocol: other arguments of `evaluate_stream`.

    Returns:
        The evaluation at each length, in the given order.

    Example:

    ```python
    curve = keras_txl.analysis.loss_by_memory_length(
        lm, documents, [0, 4, 8], segment_length=8, batch_size=2
    )
    print({length: found.nats_per_token for length, found in curve.items()})
    ```
    """
    return {
        length: evaluate_stream(lm, documents, memory_length=length, **protocol)
        for length in memory_lengths
    }


@dataclass(frozen=True)
class PositionLosses:
    """Loss by place in the segment.

    Args:
        nats: float64 array of shape `(segment_length,)`, mean loss of the
            tokens at each place; NaN where none stood.
        counts: int64 array of that shape, tokens at each place.
    """

    nats: np.ndarray
    counts: np.ndarray


def loss_by_position(
    lm: Any, documents: Any, **protocol: Any
) -> PositionLosses:
    """Mean loss by place in the segment: context fragmentation.

    Without memory the first tokens of a segment see next to nothing, and
    their loss is high; what memory carries over a border levels the curve.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        **protocol: arguments of `EvaluationProtocol`.

    Returns:
        A `PositionLosses`.

    Example:

    ```python
    curve = keras_txl.analysis.loss_by_position(
        lm, documents, segment_length=8, memory_length=0
    )
    print(curve.nats)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.1.
    """
    settings = EvaluationProtocol(**protocol).resolved(lm)
    length = settings.segment_length
    nats = np.zeros(length)
    counts = np.zeros(length, "int64")
    for found in segment_losses(lm, DocumentLine(documents), settings):
        nats += np.bincount(found.offsets, weights=found.nats, minlength=length)
        counts += np.bincount(found.offsets, minlength=length)
    means = np.divide(
        nats, counts, out=np.full(length, np.nan), where=counts > 0
    )
    return PositionLosses(means, counts)
