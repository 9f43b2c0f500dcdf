"""Evaluation of held-out documents, segment by segment, with memory.

The documents are laid out as B parallel streams and read in segments of T
tokens; the memory of the last M tokens is carried as a value, so nothing is
shared with training or with another evaluation. Windows with a stride, which
know no memory, are there to compare with. Losses are summed per
document: an average over tokens, an interval over documents and a comparison
of two settings all follow from the same two arrays.
"""

import math
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.checks import AS_BUILT
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.dynamic_weights import GradientScales
from keras_txl.evaluation.protocol import EvaluationProtocol
from keras_txl.evaluation.protocol_line import protocol_line
from keras_txl.evaluation.token_losses import SegmentLosses
from keras_txl.evaluation.token_losses import segment_losses
from keras_txl.evaluation.token_losses import segment_reader


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
        document_words: int64 array, words those tokens stand for; `None` if
            nobody counted them.
        protocol: how the documents were read; no setting is left open.
        protocol_line: all that is needed to measure the same again, in a
            line.
    """

    document_nats: np.ndarray
    document_targets: np.ndarray
    document_bytes: np.ndarray
    seconds: float
    timed_targets: int
    document_words: np.ndarray | None = None
    protocol: EvaluationProtocol | None = None
    protocol_line: str = ""

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
    def num_words(self) -> int | None:
        """Number of words, if they were counted."""
        if self.document_words is None:
            return None
        return int(self.document_words.sum())

    @property
    def word_perplexity(self) -> float | None:
        """Exponential of the loss per word, if words were counted."""
        if not self.num_words:
            return None
        nats = self.nats / self.num_words
        return math.exp(nats) if nats < 700 else math.inf

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
    clamp_length: int | str | None = AS_BUILT,
    attention_window: int | str | None = AS_BUILT,
    warmup_tokens: int = 0,
    stride: int | None = None,
    dynamic_learning_rate: float | None = None,
    dynamic_decay: float = 0.0,
    gradient_scales: GradientScales | None = None,
    document_bytes: Sequence[int] | None = None,
    document_words: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StreamEvaluation:
    """Measure the loss of every document under a protocol.

    The first token of a document is given, each other token is predicted
    once and weighs the same, whichever segment it stands in. A document that
    runs over the end of a stream goes on in the next one with a fresh memory,
    at the same place for every memory length, so evaluations with equal
    `segment_length` and `batch_size` can be compared token by token.

    Between segments keys and values are kept where they can stand for hidden
    states, so that no token is projected twice. On TensorFlow a model that was
    compiled with `jit_compile=True` runs under XLA.

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
        clamp_length: as `eval_clamp_length` of the backbone. Defaults to what
            the model was built with.
        attention_window: as `eval_attention_window` of the backbone. Defaults
            to what the model was built with.
        warmup_tokens: tokens of its document that each stream reads before
            those that count.
        stride: read windows of `segment_length` tokens without memory, this
            many tokens apart, in place of streams: what a model without
            memory must do to see as much.
        document_bytes: for each document, the bytes its targets stand for.
            Defaults to one byte a token.
        document_words: for each document, the words its targets stand for.
        progress: called as `progress(done, total)` after each segment.

    Returns:
        A `StreamEvaluation` with one entry a document, in the given order.

    Raises:
        ValueError: if a setting is out of range, see `EvaluationProtocol`, if
            `document_bytes` or `document_words` has not one entry a document,
            or if `gradient_scales` are those of another model.

    Example:

    ```python
    result = keras_txl.evaluation.evaluate_stream(
        lm, documents, segment_length=64, batch_size=16, memory_length=128
    )
    print(result.bits_per_byte)
    print(result.protocol_line)
    ```
    """
    protocol = EvaluationProtocol(
        segment_length=segment_length,
        batch_size=batch_size,
        memory_length=memory_length,
        clamp_length=clamp_length,
        attention_window=attention_window,
        warmup_tokens=warmup_tokens,
        stride=stride,
        zero_memory=zero_memory,
        dynamic_learning_rate=dynamic_learning_rate,
        dynamic_decay=dynamic_decay,
    ).resolved(lm)
    read = segment_reader(lm, protocol, gradient_scales)
    line = DocumentLine(documents)
    losses = segment_losses(lm, line, protocol, progress, read)
    sums = _sum_by_document(losses, line.num_documents)
    counts = sums["document_targets"]
    return StreamEvaluation(
        **sums,
        document_bytes=_counts("document_bytes", document_bytes, counts),
        document_words=None
        if document_words is None
        else _counts("document_words", document_words, counts),
        protocol=protocol,
        protocol_line=protocol_line(lm, line, protocol, gradient_scales),
    )


def _sum_by_document(
    losses: Iterable[SegmentLosses], num_documents: int
) -> dict[str, Any]:
    """Sums and times of a `StreamEvaluation`; the first segment compiles."""
    nats = np.zeros(num_documents, "float64")
    counts = np.zeros(num_documents, "int64")
    started, seconds, timed_targets = 0.0, 0.0, 0
    for index, found in enumerate(losses):
        nats += np.bincount(
            found.documents, weights=found.nats, minlength=num_documents
        )
        counts += np.bincount(found.documents, minlength=num_documents)
        if index == 0:
            started = time.perf_counter()
        else:
            timed_targets += len(found.nats)
            seconds = time.perf_counter() - started
    return {
        "document_nats": nats,
        "document_targets": counts,
        "seconds": seconds,
        "timed_targets": timed_targets,
    }


def _counts(
    name: str, given: Sequence[int] | None, counts: np.ndarray
) -> np.ndarray:
    if given is None:
        return counts
    sizes = np.asarray(given, "int64")
    if sizes.shape != counts.shape:
        raise ValueError(
            f"`{name}` must have one entry a document. Received: "
            f"{sizes.size} entries for {counts.size} documents."
        )
    return sizes
