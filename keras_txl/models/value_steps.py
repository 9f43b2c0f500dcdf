"""Steps of a language model with memory as a value, compiled.

Axes: B rows, T segment, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.models.evaluation_settings import settings_in_use
from keras_txl.models.token_inputs import check_vocabulary
from keras_txl.models.token_inputs import normalize_targets
from keras_txl.models.value_function import compile_value_function
from keras_txl.models.value_memory import check_memory


class ValueStepsMixin:
    """`step` and `token_losses` for a model with a backbone and a head."""

    backbone: Any
    head: Any
    weights: list[Any]
    normalize_inputs: Callable[[Any], dict[str, Tensor]]

    def initial_memory(
        self, batch_size: int, memory_length: int | None = None
    ) -> Memory:
        """An empty memory value, see `TransformerXLBackbone`."""
        return self.backbone.initial_memory(batch_size, memory_length)

    def step(self, inputs: Any, memory: Memory) -> tuple[Tensor, Memory]:
        """Logits of a segment; the memory goes in and comes out as a value.

        Args:
            inputs: as in a call; any batch size.
            memory: from `initial_memory` or an earlier step.

        Returns:
            Logits `(batch_size, segment_length, vocabulary_size)` and the
            memory after the segment.

        Raises:
            ValueError: if the memory does not fit the model or the batch, or
                an array of NumPy has ids outside the vocabulary.
        """
        given, inputs = inputs, self.normalize_inputs(inputs)
        check_vocabulary(given, self.backbone.vocabulary_size)
        memory = self._check_memory(memory, inputs["token_ids"])
        return self._value_function("step", self._step)(inputs, memory)

    def token_losses(
        self, inputs: Any, targets: Any, memory: Memory
    ) -> tuple[Tensor, Memory]:
        """Loss of each target, in token order.

        Args:
            inputs: as in a call; any batch size.
            targets: int ids of shape `(batch_size, segment_length)`, the
                token that follows each input token.
            memory: from `initial_memory` or an earlier step.

        Returns:
            float32 (at least) losses `(batch_size, segment_length)` in nats,
            0 on padding, and the memory after the segment.

        Raises:
            ValueError: if the memory or the targets do not fit, or an array
                of NumPy has ids outside the vocabulary.
        """
        function = self._value_function("token_losses", self.losses_with_memory)
        return function(*self.normalize_for_losses(inputs, targets, memory))

    def normalize_for_losses(
        self, inputs: Any, targets: Any, memory: Memory
    ) -> tuple[dict[str, Tensor], Tensor, Memory]:
        """Check what `token_losses` takes; it gives tensors of one form."""
        inputs, targets = self.check_for_losses(inputs, targets)
        memory = self._check_memory(memory, inputs["token_ids"])
        return inputs, targets, memory

    def check_for_losses(
        self, inputs: Any, targets: Any
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Check inputs and targets; it gives tensors of one form."""
        given, inputs = inputs, self.normalize_inputs(inputs)
        normal = normalize_targets(targets, inputs["token_ids"])
        check_vocabulary(given, self.backbone.vocabulary_size, targets)
        return inputs, normal

    def _check_memory(self, memory: Any, token_ids: Tensor) -> Memory:
        backbone = self.backbone
        return check_memory(
            memory, token_ids, backbone.num_layers, backbone.hidden_dim
        )

    def _step(
        self, inputs: dict[str, Tensor], memory: Memory
    ) -> tuple[Tensor, Memory]:
        hidden, memory = self.backbone.call_with_memory(inputs, memory)
        return self.head.logits(hidden, inputs["document_ids"]), memory

    def losses_with_memory(
        self, inputs: dict[str, Tensor], targets: Tensor, memory: Memory
    ) -> tuple[Tensor, Memory]:
        """`token_losses` of what `normalize_for_losses` gave, as it stands."""
        hidden, memory = self.backbone.call_with_memory(inputs, memory)
        losses = self.head.token_losses(hidden, targets, inputs["document_ids"])
        return losses, memory

    def _value_function(
        self,
        name: Any,
        function: Callable[..., Any],
        compile: Callable[..., Callable[..., Any]] = compile_value_function,
        **options: Any,
    ) -> Callable[..., Any]:
        # LoRA and quantization replace weights that a trace has captured, and
        # `evaluation_settings` what it has of window and clamping.
        settings = settings_in_use(self.backbone)
        key = (name, settings, *map(id, self.weights))
        compiled = self.__dict__.setdefault("_value_functions", {})
        if key not in compiled:
            compiled[key] = compile(self, function, **options)
        return compiled[key]
