"""How large the gradients of each weight are on a text."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.checks import check_positive
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.dynamic_weights import GradientScales
from keras_txl.evaluation.dynamic_weights import TokenGradients
from keras_txl.evaluation.protocol import EvaluationProtocol
from keras_txl.evaluation.protocol_line import text_digest
from keras_txl.evaluation.token_losses import segment_losses


def gradient_scales(
    lm: Any,
    documents: Any,
    *,
    epsilon: float = 1e-5,
    progress: Callable[[int, int], None] | None = None,
    **protocol: Any,
) -> GradientScales:
    """Measure gradients on one text, to evaluate another dynamically.

    Take a text that the model was trained on, and read it as the other one
    will be: gradients are smaller the more tokens are read at once.

    Args:
        lm: a `TransformerXLCausalLM`. It is left as it is.
        documents: one 1-D integer array, or a sequence of them.
        epsilon: keeps steps small where gradients are rare.
        progress: called as `progress(done, total)` after each call.
        **protocol: arguments of `EvaluationProtocol`; no step is made.

    Returns:
        The root of the mean square of each gradient over the calls.

    Raises:
        ValueError: if a setting is out of range or no weight is trainable.

    Example:

    ```python
    reading = {"segment_length": 8, "batch_size": 1, "memory_length": 16}
    scales = keras_txl.evaluation.gradient_scales(lm, documents, **reading)
    result = keras_txl.evaluation.evaluate_stream(
        lm,
        documents,
        dynamic_learning_rate=1e-5,
        dynamic_decay=1e-3,
        gradient_scales=scales,
        **reading,
    )
    print(result.protocol_line)
    ```

    Reference:
        Krause et al. 2018 (arXiv 1709.07432), section 4.1.
    """
    from keras import ops

    check_positive("epsilon", epsilon)
    settings = EvaluationProtocol(**protocol).resolved(lm)
    line = DocumentLine(documents)
    gradients = TokenGradients(lm, _added)
    values = gradients.trained_values()
    sums = [ops.zeros_like(value) for value in values]
    calls = 0

    def read(
        inputs: Any, targets: Any, counted: Any, memory: Memory
    ) -> tuple[Tensor, Memory]:
        nonlocal sums, calls
        losses, memory, sums = gradients(
            values, inputs, targets, counted, memory, sums
        )
        calls += 1
        return losses, memory

    for _ in segment_losses(lm, line, settings, progress, read):
        pass
    return GradientScales(
        [np.sqrt(ops.convert_to_numpy(total) / calls) for total in sums],
        float(epsilon),
        f"{line.num_targets} targets of text {text_digest(line)} in segments "
        f"of {settings.segment_length} and batches of {settings.batch_size}",
    )


def _added(_: Any, gradients: Any, sums: Any) -> list[Tensor]:
    return [
        total + gradient * gradient
        for total, gradient in zip(sums, gradients, strict=True)
    ]
