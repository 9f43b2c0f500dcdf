"""Documents read segment by segment, with something measured in each."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.protocol import EvaluationProtocol
from keras_txl.evaluation.segments import plan_segments
from keras_txl.models.evaluation_settings import evaluation_settings
from keras_txl.models.value_function import compile_value_function

Measure = Callable[[dict[str, Tensor], Memory, Tensor], tuple[Tensor, Memory]]
"""From inputs, memory and what counts `(B, T)` to a tensor and the memory."""


def measured_segments(
    lm: Any, documents: Any, measure: Measure, **protocol: Any
) -> Iterator[tuple[np.ndarray, int, Memory]]:
    """Read documents under a protocol and measure in each call.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: one 1-D integer array, or a sequence of them.
        measure: what is measured; it is compiled.
        **protocol: arguments of `EvaluationProtocol`.

    Yields:
        What was measured in a call, the number of tokens that count in it,
        and the memory after it.

    Raises:
        ValueError: if the protocol is dynamic.
    """
    settings = EvaluationProtocol(**protocol).resolved(lm)
    if settings.dynamic_learning_rate is not None:
        raise ValueError(
            "What is measured here are the weights as trained. Received: "
            f"dynamic_learning_rate={settings.dynamic_learning_rate}. Leave "
            "it out."
        )
    line = DocumentLine(documents)
    plan = plan_segments(line, settings)
    function = compile_value_function(lm, measure)
    memory = lm.initial_memory(settings.batch_size, settings.memory_length)
    for call in range(len(plan)):
        inputs, _, counted, _ = plan.read(line, call, settings.segment_length)
        with evaluation_settings(
            lm, settings.attention_window, settings.clamp_length
        ):
            found, memory = function(
                lm.normalize_inputs(inputs),
                memory,
                ops.convert_to_tensor(counted.astype("float32")),
            )
        yield ops.convert_to_numpy(found), int(counted.sum()), memory
