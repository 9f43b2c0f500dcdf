"""One line with all that is needed to measure the same number again."""

import hashlib
from typing import Any

import numpy as np

from keras_txl import __version__
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.dynamic_weights import GradientScales
from keras_txl.evaluation.protocol import EvaluationProtocol

PIECE = 1 << 20


def protocol_line(
    lm: Any,
    line: DocumentLine,
    protocol: EvaluationProtocol,
    scales: GradientScales | None = None,
) -> str:
    """Settings, text, model and software of an evaluation in one line.

    Args:
        lm: the `TransformerXLCausalLM`.
        line: the documents.
        protocol: how they were read.
        scales: what the steps of a dynamic evaluation were divided by.

    Returns:
        A line of text. `text` is a digest of the pairs (input, target) and
        the numbers of their documents, `weights` one of the weights.
    """
    import keras

    backbone = lm.backbone
    empty = "attended as zeros" if backbone.attend_empty_memory else "unseen"
    return "; ".join(
        [
            protocol.told(),
            "memory empty at the start of a document and of a stream, empty "
            f"slots {empty}",
            *_dynamic(protocol, scales),
            "first token of a document given, every other weighs the same",
            f"{line.num_targets} targets in {line.num_documents} documents, "
            f"text {text_digest(line)}",
            f"weights {weights_digest(lm)}",
            f"keras_txl {__version__}, keras "
            f"{keras.__version__} on {keras.backend.backend()}, "
            f"{backbone.compute_dtype}",
        ]
    )


def _dynamic(
    protocol: EvaluationProtocol, scales: GradientScales | None
) -> list[str]:
    if protocol.dynamic_learning_rate is None:
        return []
    told = "undivided"
    if scales is not None:
        told = (
            f"divided by {scales.epsilon} + root mean squares of gradients on "
            + scales.told
        )
    return [
        "a step on the mean loss of each call after it was scored, carried "
        f"on over documents, {told}"
    ]


def text_digest(line: DocumentLine) -> str:
    """Twelve digits of the SHA-256 of tokens and borders of documents."""
    digest = hashlib.sha256()
    for first in range(0, line.num_targets, PIECE):
        last = min(first + PIECE, line.num_targets)
        for values in line.read(np.array([first]), np.array([last])):
            digest.update(values.astype("<i4").tobytes())
    return digest.hexdigest()[:12]


def weights_digest(lm: Any) -> str:
    """Twelve digits of the SHA-256 of the weights, without any memory."""
    from keras import ops

    memories = {
        id(variable)
        for layer in lm.backbone.memory_layers
        for variable in layer.variables
    }
    digest = hashlib.sha256()
    for variable in lm.weights:
        if id(variable) not in memories:
            values = np.asarray(ops.convert_to_numpy(variable.value))
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:12]
