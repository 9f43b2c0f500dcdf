"""What becomes of memory over a long text.

Axes: C calls, B rows, L layers, M memory slots, D hidden width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.analysis.segment_reading import measured_segments


@dataclass(frozen=True)
class MemoryTrace:
    """Memory after each call.

    Args:
        norms: float64 array of shape `(calls, num_layers)`, mean Euclidean
            norm of the states that memory holds. Layer i remembers its
            inputs, so layer 0 remembers embeddings.
        drift: float64 array of that shape, 1 minus the cosine between the
            mean state after the first call and after this one: 0 where
            memory still looks the same on average.
    """

    norms: np.ndarray
    drift: np.ndarray


def trace_memory(lm: Any, documents: Any, **protocol: Any) -> MemoryTrace:
    """Norms and drift of memory while documents are read.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        **protocol: arguments of `EvaluationProtocol`.

    Returns:
        A `MemoryTrace`.

    Raises:
        ValueError: if nothing is kept in memory.

    Example:

    ```python
    trace = keras_txl.analysis.trace_memory(lm, documents, segment_length=8)
    print(trace.norms[-1])
    ```
    """

    def read(
        inputs: dict[str, Tensor], memory: Memory, counted: Tensor
    ) -> tuple[Tensor, Memory]:
        _, memory = lm.backbone.call_with_memory(inputs, memory)
        return counted, memory

    norms, means = [], []
    for _, _, memory in measured_segments(lm, documents, read, **protocol):
        states = np.asarray(ops.convert_to_numpy(memory["states"]), "float64")
        slots = states.shape[2]
        if not slots:
            raise ValueError(
                "A trace of memory needs memory. Received: memory_length=0. "
                "Pass memory_length=1 or more."
            )
        length = ops.convert_to_numpy(memory["length"])
        valid = np.arange(slots, 0, -1) <= length[:, None]  # (B, M)
        held = states.transpose(0, 2, 1, 3)[valid]  # (states, L, D)
        norms.append(np.linalg.norm(held, axis=-1).mean(axis=0))
        means.append(held.mean(axis=0))  # (L, D)
    mean = np.stack(means)  # (C, L, D)
    products = (mean * mean[0]).sum(axis=-1)
    lengths = np.linalg.norm(mean, axis=-1)
    return MemoryTrace(np.stack(norms), 1 - products / (lengths * lengths[0]))
