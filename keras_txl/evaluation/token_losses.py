"""The loss of each token of documents under a protocol.

Axes: B rows, T segment, K tokens that count.
"""

from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.dynamic_weights import DynamicWeights
from keras_txl.evaluation.dynamic_weights import GradientScales
from keras_txl.evaluation.protocol import EvaluationProtocol
from keras_txl.evaluation.segments import plan_segments


@dataclass(frozen=True)
class SegmentLosses:
    """Tokens that count in one call.

    Args:
        nats: float64 array of shape `(K,)`.
        places: int64 array, where the pairs stand in the line of documents.
        documents: int array, numbers of their documents.
        offsets: int array, where they stand in the segment, from 0.
    """

    nats: np.ndarray
    places: np.ndarray
    documents: np.ndarray
    offsets: np.ndarray


def segment_losses(
    lm: Any,
    line: DocumentLine,
    protocol: EvaluationProtocol,
    progress: Callable[[int, int], None] | None = None,
    read: Callable[..., tuple[Tensor, Memory]] | None = None,
) -> Iterator[SegmentLosses]:
    """Read documents call by call; the model is left as it was.

    Args:
        lm: a `TransformerXLCausalLM`.
        line: the documents.
        protocol: how they are read; resolved for `lm`.
        progress: called as `progress(done, total)` after each call.
        read: takes inputs, targets, which of them count, and memory; returns
            losses and memory. Default: with the weights of the model, changed
            from call to call if the protocol is dynamic.

    Yields:
        What each call has counted.
    """
    from keras_txl.models.evaluation_settings import evaluation_settings

    if read is None:
        read = segment_reader(lm, protocol)
    plan = plan_segments(line, protocol)
    memory = lm.initial_memory(
        protocol.batch_size, memory_length=protocol.memory_length
    )
    zeros = np.zeros(tuple(memory["states"].shape), "float32")
    for call in range(len(plan)):
        inputs, targets, counted, places = plan.read(
            line, call, protocol.segment_length
        )
        if protocol.zero_memory:
            memory = {**memory, "states": zeros}
        with evaluation_settings(
            lm, protocol.attention_window, protocol.clamp_length
        ):
            losses, memory = read(inputs, targets, counted, memory)
        yield SegmentLosses(
            nats=_to_numpy(losses)[counted],
            places=places[counted],
            documents=inputs["document_ids"][counted],
            offsets=np.nonzero(counted)[1],
        )
        if progress is not None:
            progress(call + 1, len(plan))


def segment_reader(
    lm: Any, protocol: EvaluationProtocol, scales: GradientScales | None = None
) -> Callable[..., tuple[Tensor, Memory]]:
    """What reads one segment after another under a protocol.

    `evaluate_stream` and `token_losses` read with it. While it is in use the
    weights must stand still.

    Args:
        lm: a `TransformerXLCausalLM`.
        protocol: an `EvaluationProtocol`. Its window, clamp length and memory
            length must be set in `lm` and in the memory already.
        scales: a `GradientScales`, for dynamic evaluation.

    Returns:
        A function `read(inputs, targets, counted, memory)` that returns the
        losses `(B, T)` in nats and the next memory. `counted`, a bool array
        of that shape, is for the steps of a dynamic evaluation alone.

    Raises:
        ValueError: if `scales` come without a step, or do not fit.
    """
    if protocol.dynamic_learning_rate is not None:
        return DynamicWeights(lm, protocol, scales).token_losses
    if scales is not None:
        raise ValueError(
            "`gradient_scales` are for dynamic evaluation. Received: "
            "dynamic_learning_rate=None. Pass one, or leave the scales out."
        )
    from keras_txl.models.kept_projections import KeptProjections

    model = lm
    if KeptProjections.suits(lm.backbone) and not protocol.zero_memory:
        model = KeptProjections(lm, protocol.segment_length)
    return lambda inputs, targets, _, memory: model.token_losses(
        inputs, targets, memory
    )


def token_losses(
    lm: Any,
    documents: Any,
    *,
    gradient_scales: GradientScales | None = None,
    progress: Callable[[int, int], None] | None = None,
    **protocol: Any,
) -> list[np.ndarray]:
    """The loss of every token of documents, each predicted once.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        gradient_scales: as in `evaluate_stream`.
        progress: called as `progress(done, total)` after each call.
        **protocol: arguments of `EvaluationProtocol`.

    Returns:
        For each document a float64 array in nats, shorter than the document
        by one: the first token is given.

    Example:

    ```python
    nats = keras_txl.evaluation.token_losses(lm, documents, segment_length=8)
    print(len(nats[0]) == len(documents[0]) - 1)
    ```
    """
    settings = EvaluationProtocol(**protocol).resolved(lm)
    line = DocumentLine(documents)
    nats = np.zeros(line.num_targets, "float64")
    counts = np.zeros(line.num_documents, "int64")
    read = segment_reader(lm, settings, gradient_scales)
    for found in segment_losses(lm, line, settings, progress, read):
        nats[found.places] = found.nats
        counts += np.bincount(found.documents, minlength=line.num_documents)
    return np.split(nats, np.cumsum(counts)[:-1])


def _to_numpy(tensor: Any) -> np.ndarray:
    # Imported here so that the module loads without a Keras backend.
    from keras import ops

    return np.asarray(ops.convert_to_numpy(tensor), "float64")
