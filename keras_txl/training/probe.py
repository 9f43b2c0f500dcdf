"""A text that is always the same, to measure a model in training on.

The memory of the probe is a value: training and its banks are left alone.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.models.attention_watch import row_entropy
from keras_txl.models.attention_watch import watched_attention
from keras_txl.models.value_function import compile_value_function
from keras_txl.models.value_gradients import compile_gradients
from keras_txl.models.value_gradients import trained_values


class Probe:
    """Consecutive batches; what comes before the last one is its past.

    Args:
        batches: a batch `(inputs, targets)` or `(inputs, targets,
            sample_weight)`, or a list of them.

    Raises:
        ValueError: if there is no batch.
    """

    def __init__(self, batches: Any) -> None:
        batches = [batches] if isinstance(batches, tuple) else list(batches)
        if not batches or not all(len(batch) in (2, 3) for batch in batches):
            raise ValueError(
                "`probe` must be a batch `(inputs, targets)` or `(inputs, "
                "targets, sample_weight)`, or a list of such batches. "
                f"Received: {len(batches)} batches of "
                f"{[len(batch) for batch in batches]} parts. Use "
                "`stream.segment(0)`."
            )
        *self.past, self.batch = batches

    def measured(self, lm: Any) -> tuple[Any, Tensor, Tensor, Memory]:
        """What is measured: inputs, targets and weights of the last batch,
        and the memory that the others leave."""
        inputs, targets, *weight = self.batch
        inputs = lm.normalize_inputs(inputs)
        memory = lm.initial_memory(inputs["token_ids"].shape[0])
        for past_inputs, past_targets, *_ in self.past:
            _, memory = lm.token_losses(past_inputs, past_targets, memory)
        valid = ops.cast(inputs["document_ids"] >= 0, "float32")
        if weight:
            given = ops.cast(weight[0], "float32")
            # One weight a token, or one a row.
            valid *= given if len(given.shape) == 2 else given[:, None]
        return inputs, ops.cast(targets, "int32"), valid, memory


def compile_attention_entropy(lm: Any) -> Callable[..., Tensor]:
    """Compile what measures how widely the heads look.

    Args:
        lm: a `TransformerXLCausalLM`.

    Returns:
        A function of what `Probe.measured` returns. It gives the entropy of
        the attention weights in nats, averaged over the tokens of the batch:
        a float32 tensor of shape `(num_layers, num_heads)`.
    """
    backbone = lm.backbone

    def entropy(
        inputs: Any, targets: Tensor, weights: Tensor, memory: Memory
    ) -> Tensor:
        valid = inputs["document_ids"] >= 0
        # Inside the layers the tokens of a row come first, padding last.
        count = ops.sum(ops.cast(valid, "int32"), axis=1, keepdims=True)
        valid = ops.cast(ops.arange(valid.shape[1]) < count, "float32")
        with watched_attention(backbone) as found:
            backbone.call_with_memory(inputs, memory)
        total = ops.sum(valid)
        return ops.stack(
            [
                ops.sum(row_entropy(seen) * valid[:, None], axis=(0, 2)) / total
                for seen in found
            ]
        )

    return compile_value_function(lm, entropy)


def compile_gradient_squares(lm: Any) -> Callable[..., Tensor]:
    """Compile what measures the gradients of the mean loss of a batch.

    Args:
        lm: a `TransformerXLCausalLM`.

    Returns:
        A function of what `Probe.measured` returns. It gives, for each of the
        trainable variables, the sum of the squares of its gradient: a float32
        tensor of shape `(number of variables,)`.
    """

    strategy = getattr(lm, "distribute_strategy", None)
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            "`GradientNorms` needs a model on one device. Received: a "
            f"strategy of {strategy.num_replicas_in_sync} replicas. Leave "
            "the callback out."
        )

    def loss(
        inputs: Any, targets: Tensor, weights: Tensor, memory: Memory
    ) -> tuple[Tensor, Any]:
        hidden, _ = lm.backbone.call_with_memory(inputs, memory)
        losses = lm.head.token_losses(hidden, targets, inputs["document_ids"])
        total = ops.sum(ops.cast(losses, "float32") * weights)
        return total / ops.maximum(ops.sum(weights), 1e-6), ()

    def squares(_: Any, gradients: list[Tensor], *__: Any) -> Tensor:
        return ops.stack(
            [
                ops.sum(ops.square(ops.cast(gradient, "float32")))
                for gradient in gradients
            ]
        )

    run = compile_gradients(lm, loss, squares)
    return lambda *measured: run(trained_values(lm), *measured)
