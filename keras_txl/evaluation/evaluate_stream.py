"""Evaluation of held-out documents, segment by segment, with memory.

The documents are laid out as B parallel streams and read in segments of T
tokens; the memory of the last M tokens is carried as a value, so nothing is
shared with training or with another evaluation. Losses are summed per
document: an average over tokens, an interval over documents and a comparison
of two settings all follow from the same two arrays.
"""

import math
import time
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.data import SegmentStream


@dataclass(frozen=True)
class StreamEvaluation:
    """Losses of an evaluation, one entry a document.

    Args:
        document_nats: float64 array, summed loss of each document in nats.
        document_targets: int64 array, predicted tokens of each document.
        document_bytes: int64 array, bytes those tokens stand for. The same
            as `document_targets` where tokens are bytes.
        seconds: wall time, without the first segment, which compiles.
        timed_targets: tokens predicted within `seconds`.
    """

    document_nats: np.ndarray
    document_targets: np.ndarray
    document_bytes: np.ndarray
    seconds: float
    timed_targets: int

    @property
    def nats(self) -> float:
        """Summed loss of all documents in nats."""
        return float(self.document_nats.sum())

    @property
    def num_targets(self) -> int:
        """Number of predicted tokens."""
        return int(self.document_targets.sum())

    @property
    def nats_per_token(self) -> float:
        """Average loss in nats per token."""
        return self.nats / self.num_targets

    @property
    def bits_per_token(self) -> float:
        """Average loss in bits per token; per character for characters."""
        return self.nats_per_token / math.log(2.0)

    @property
    def bits_per_byte(self) -> float:
        """Average loss in bits per byte of text."""
        return self.nats / int(self.document_bytes.sum()) / math.log(2.0)

    @property
    def perplexity(self) -> float:
        """Exponential of the average loss per token."""
        return math.exp(self.nats_per_token)

    @property
    def tokens_per_second(self) -> float:
        """Predicted tokens per second; 0 when one segment was all."""
        return self.timed_targets / self.seconds if self.seconds else 0.0


def evaluate_stream(
    lm: Any,
    documents: Any,
    *,
    segment_length: int,
    batch_size: int,
    memory_length: int | None = None,
    zero_memory: bool = False,
    document_bytes: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StreamEvaluation:
    """Measure the loss of every document under a memory of some length.

    The first token of a document is given, each other token is predicted
    once. A document that runs over the end of a stream goes on in the next
    one with a fresh memory, at the same place for every memory length, so
    evaluations with equal `segment_length` and `batch_size` can be compared
    token by token.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        segment_length: tokens read in one call.
        batch_size: number of parallel streams.
        memory_length: tokens kept in memory. Defaults to the model's
            `eval_memory_length`. 0 means no memory.
        zero_memory: whether the states in memory are replaced by zeros
            before each segment. The attention span stays as it is, so this
            is the control for what the content of the memory is worth.
        document_bytes: for each document, the bytes its targets stand for.
            Defaults to one byte a token.
        progress: called as `progress(done, total)` after each segment.

    Returns:
        A `StreamEvaluation` with one entry a document, in the given order.

    Raises:
        ValueError: if a length is no positive integer, or if
            `document_bytes` has not one entry a document.

    Example:

    ```python
    result = keras_txl.evaluation.evaluate_stream(
        lm, documents, segment_length=64, batch_size=16, memory_length=128
    )
    print(result.bits_per_byte)
    ```
    """
    check_integer("segment_length", segment_length, 1)
    check_integer("batch_size", batch_size, 1)
    check_optional_integer("memory_length", memory_length, 0)
    stream = SegmentStream(documents, batch_size, segment_length)
    num_documents = stream.num_documents
    nats = np.zeros(num_documents, "float64")
    counts = np.zeros(num_documents, "int64")
    memory = lm.initial_memory(batch_size, memory_length=memory_length)
    zeros = np.zeros(tuple(memory["states"].shape), "float32")
    total = len(stream)
    started = time.perf_counter()
    timed_targets = 0
    for index, (inputs, targets, weights) in enumerate(stream):
        if zero_memory:
            memory = {**memory, "states": zeros}
        losses, memory = lm.token_losses(inputs, targets, memory)
        counted = np.asarray(weights) > 0  # (B, T)
        # Passes over the documents number on; here there is only the first.
        owner = np.asarray(inputs["document_ids"])[counted] % num_documents
        kept = _to_numpy(losses)[counted]
        nats += np.bincount(owner, weights=kept, minlength=num_documents)
        found = np.bincount(owner, minlength=num_documents)
        counts += found
        if index == 0:
            started = time.perf_counter()
        else:
            timed_targets += int(found.sum())
        if progress is not None:
            progress(index + 1, total)
    return StreamEvaluation(
        document_nats=nats,
        document_targets=counts,
        document_bytes=_bytes_of(document_bytes, counts),
        seconds=time.perf_counter() - started if total > 1 else 0.0,
        timed_targets=timed_targets,
    )


def _bytes_of(
    document_bytes: Sequence[int] | None, counts: np.ndarray
) -> np.ndarray:
    if document_bytes is None:
        return counts
    sizes = np.asarray(document_bytes, "int64")
    if sizes.shape != counts.shape:
        raise ValueError(
            "`document_bytes` must have one entry a document. Received: "
            f"{sizes.size} entries for {counts.size} documents."
        )
    return sizes


def _to_numpy(tensor: Any) -> np.ndarray:
    # Imported here so that the module loads without a Keras backend.
    from keras import ops

    return np.asarray(ops.convert_to_numpy(tensor), "float64")
