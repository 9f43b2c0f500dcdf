"""A text of any length as one vector: its segments are read with memory.

A text is cut from its end, so that all texts of a batch end together: what is
left over stands in front. The last segments carry gradient. Those before are
read as in evaluation and leave nothing but memory and, for a mean, a sum; they
run in a loop that begins at the first segment that has a token and matters.

Axes: B rows, N tokens, S segments, T segment, K segments with gradient,
L layers, M memory slots, D hidden width.
"""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.layers.segment_memory import empty_memory
from keras_txl.layers.token_packing import packing_order
from keras_txl.layers.token_packing import take_rows

POOLINGS = ("last", "mean")


class Segments(NamedTuple):
    """Texts that end together.

    Args:
        inputs: dict of tensors of shape `(batch, num_segments *
            segment_length, ...)`; padding stands in front.
        segment_length: int T.
        num_segments: int S.
        first: int tensor, the first segment with a token.
    """

    inputs: dict[str, Tensor]
    segment_length: Any
    num_segments: Any
    first: Tensor

    def at(self, index: Any) -> dict[str, Tensor]:
        """Segment `index` of each row."""
        places = ops.arange(self.segment_length, dtype="int32")
        places = places + ops.cast(index * self.segment_length, "int32")
        return {
            name: ops.take(values, places, axis=1)
            for name, values in self.inputs.items()
        }

    def last(self, count: int) -> dict[str, Tensor]:
        """The last `count` segments of each row, end to end."""
        begin = (self.num_segments - count) * self.segment_length
        return {name: values[:, begin:] for name, values in self.inputs.items()}


def cut_from_the_end(
    inputs: dict[str, Tensor], segment_length: int, at_least: int
) -> Segments:
    """Cut texts into segments that end with their last tokens.

    Args:
        inputs: dict of `document_ids`, int tensor of shape `(batch, length)`
            with -1 on padding, and other tensors of shape `(batch, length,
            ...)`.
        segment_length: int. Tokens of a segment; shorter rows are one.
        at_least: int. Segments to make where the length is known only when
            the graph runs; segments of padding alone change nothing.

    Returns:
        The segments.
    """
    document_ids = inputs["document_ids"]
    length = ops.shape(document_ids)[1]
    if isinstance(length, int):
        segment_length = min(segment_length, length)
        num_segments = -(-length // segment_length)
    else:
        segment_length = ops.minimum(length, segment_length)
        num_segments = ops.maximum(-(-length // segment_length), at_least)
    order, _ = packing_order(document_ids)  # valid tokens first
    tokens = ops.sum(ops.cast(document_ids >= 0, "int32"), axis=1)  # (B,)
    width = num_segments * segment_length
    ranks = ops.arange(width, dtype="int32") - (width - tokens[:, None])
    places = take_rows(order, ops.clip(ranks, 0, length - 1))  # (B, S * T)
    taken = {name: take_rows(given, places) for name, given in inputs.items()}
    taken["document_ids"] = ops.where(ranks >= 0, taken["document_ids"], -1)
    first = (width - ops.max(tokens)) // segment_length
    return Segments(taken, segment_length, num_segments, first)


@keras.saving.register_keras_serializable(package="keras_txl")
class TextReader(keras.layers.Layer):
    """Reads texts segment by segment and gives one vector for each.

    Args:
        backbone: a `TransformerXLBackbone`.
        segment_length: int. Tokens of a segment.
        pooling: `"last"`, the hidden state of the last token, or `"mean"`,
            the mean of all tokens.
        gradient_segments: int. Segments at the end of each text that carry
            gradient.
        language_model_head: a `LanguageModelHead` of the backbone, or `None`.
        language_model_weight: float. Weight of the mean loss of the next
            tokens, in the segments with gradient, in the training loss.
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: dict of the inputs of the backbone's graph, of shape `(batch,
            length, ...)`.
        training: bool. Turns dropout on in the segments with gradient.

    Returns:
        Float tensor of shape `(batch, hidden_dim)`; zeros for a text without
        a token.
    """

    def __init__(
        self,
        backbone: Any,
        segment_length: int,
        pooling: str,
        gradient_segments: int,
        language_model_head: Any = None,
        language_model_weight: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.backbone = backbone
        self.segment_length = segment_length
        self.pooling = pooling
        # Memory passes on no gradient (paper 3.2): of the segments only the
        # last one reaches the last token.
        one_is_enough = pooling == "last" and not language_model_weight
        self.tail = 1 if one_is_enough else gradient_segments
        self.language_model_weight = language_model_weight
        self.language_model_head = language_model_head
        if language_model_head is not None:
            # Keras finds the weights of layers that are attributes.
            self.output_bias = language_model_head.output_bias
            self.adaptive_softmax = language_model_head.adaptive_softmax
            self.candidate_seed = language_model_head.seed_generator

    def build(self, inputs_shape: Any) -> None:
        if self.language_model_head is not None:
            for layer in (self.output_bias, self.adaptive_softmax):
                if layer is not None and not layer.built:
                    layer.build((None, None, self.backbone.hidden_dim))
        self.built = True

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> Tensor:
        training = bool(training)
        segments = cut_from_the_end(inputs, self.segment_length, self.tail)
        tail = self.tail
        if isinstance(segments.num_segments, int):
            tail = min(tail, segments.num_segments)
        memory = self._initial_memory(segments, training)
        memory, total = self._read_in_advance(segments, memory, tail)
        states = []
        for index in range(tail):
            segment = segments.at(segments.num_segments - tail + index)
            hidden, memory = self.backbone.call_with_memory(
                segment, memory, training=training
            )
            states.append(hidden)
        hidden = ops.concatenate(states, axis=1)  # (B, K * T, D)
        if training and self.language_model_weight:
            self._add_language_model_loss(segments.last(tail), hidden)
        if self.pooling == "last":
            # The end of each row, so also the last token; else zeros.
            return hidden[:, -1]  # (B, D)
        total = total + ops.sum(ops.cast(hidden, "float32"), axis=1)
        valid = ops.cast(segments.inputs["document_ids"] >= 0, "float32")
        count = ops.maximum(ops.sum(valid, axis=1, keepdims=True), 1)
        return ops.cast(total / count, self.compute_dtype)

    def _initial_memory(self, segments: Segments, training: bool) -> Memory:
        """Empty memory, without slots where no segment would read them."""
        layer = self.backbone.memory_layers[0]
        slots = layer.slots(training)
        if training and layer.reading_limit is not None:
            slots = min(slots, layer.reading_limit)
        alone = segments.num_segments == 1
        depends_on_slots = self.backbone.attend_empty_memory or any(
            str(window).startswith("memory_length")
            for window in (
                self.backbone.attention_window,
                self.backbone.eval_attention_window,
            )
        )
        if isinstance(alone, bool) and alone and not depends_on_slots:
            slots = 0
        return empty_memory(
            ops.shape(segments.inputs["document_ids"])[0],
            self.backbone.num_layers,
            slots,
            self.backbone.hidden_dim,
            self.backbone.memory_dtype,
        )

    def _read_in_advance(
        self, segments: Segments, memory: Memory, tail: int
    ) -> tuple[Memory, Tensor]:
        """Memory before the segments with gradient, and the sum until then."""
        names = list(memory)
        end = segments.num_segments - tail
        rows = ops.shape(memory["states"])[0]
        total = ops.zeros((rows, self.backbone.hidden_dim), dtype="float32")
        slots = memory["states"].shape[2]
        if isinstance(end, int) and end == 0:
            return memory, total
        begin = segments.first
        if self.pooling == "last":
            # A layer reaches M tokens back: none sees what stands before.
            reach = -(-slots // segments.segment_length)
            begin = ops.maximum(begin, end - reach * self.backbone.num_layers)

        def read(index: Tensor, total: Tensor, *values: Tensor) -> Any:
            hidden, after = self.backbone.call_with_memory(
                segments.at(index), dict(zip(names, values, strict=True))
            )
            total = total + ops.sum(ops.cast(hidden, "float32"), axis=1)
            after["states"] = ops.reshape(
                after["states"], ops.shape(memory["states"])
            )
            return [
                ops.stop_gradient(value)
                for value in (
                    index + 1,
                    total,
                    *(after[name] for name in names),
                )
            ]

        _, total, *values = ops.while_loop(
            lambda index, *rest: index < end,
            read,
            [ops.minimum(begin, end), total, *memory.values()],
        )
        return dict(zip(names, values, strict=True)), total

    def _add_language_model_loss(
        self, inputs: dict[str, Tensor], hidden: Tensor
    ) -> None:
        document_ids = inputs["document_ids"]  # (B, K * T)
        follows = ops.pad(
            document_ids[:, 1:], [[0, 0], [0, 1]], constant_values=-1
        )
        targets = ops.pad(inputs["token_ids"][:, 1:], [[0, 0], [0, 1]])
        predicted = ops.where(follows == document_ids, document_ids, -1)
        losses = self.language_model_head.token_losses(
            hidden, targets, predicted, training=True
        )
        count = ops.sum(ops.cast(predicted >= 0, losses.dtype))
        self.add_loss(
            self.language_model_weight * ops.sum(losses) / ops.maximum(count, 1)
        )

    def compute_output_spec(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> Tensor:
        return keras.KerasTensor(
            (inputs["document_ids"].shape[0], self.backbone.hidden_dim),
            dtype=self.compute_dtype,
        )
