"""The functions of an exported model, by their names in the contract.

Each takes and returns a dict of tensors whose first axis is the row, so that a
server may run rows of any requests together. (TensorFlow only: a SavedModel
holds its functions.)

Axes: B rows, T segment, V vocabulary, L layers, M memory slots, D hidden width.
"""

from collections.abc import Callable
from typing import Any

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.export.graph_checks import checked
from keras_txl.export.graph_checks import of_shape
from keras_txl.export.graph_checks import same_rows
from keras_txl.export.graph_checks import within
from keras_txl.export.memory_format import decode_states
from keras_txl.export.memory_format import encode_states
from keras_txl.export.memory_format import memory_shapes

Tensors = dict[str, Tensor]
Shapes = dict[str, tuple[tuple[int | None, ...], str]]

SEGMENT: Shapes = {
    "token_ids": ((None, None), "int32"),
    "token_length": ((None,), "int32"),
}


class StreamSignatures:
    """`step`, `score` and `initial_memory`: memory goes in and comes out.

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M.
        memory_format: see `memory_format.py`.
    """

    def __init__(self, lm: Any, memory_length: int, memory_format: str) -> None:
        self.lm = lm
        self.backbone = lm.backbone
        self.memory_length = memory_length
        self.memory_format = memory_format
        self.memory_shapes: Shapes = {
            **memory_shapes(
                memory_format,
                self.backbone.num_layers,
                memory_length,
                self.backbone.hidden_dim,
            ),
            "memory_length": ((None,), "int32"),
        }

    def functions(self) -> dict[str, Any]:
        """A `tf.function` for each name."""
        stream = {**SEGMENT, **self.memory_shapes}
        targets: Shapes = {"targets": ((None, None), "int32")}
        return {
            "step": graph_function(self.step, stream),
            "score": graph_function(self.score, {**stream, **targets}),
            "initial_memory": graph_function(
                self.initial_memory, {"rows": ((None,), "int32")}
            ),
        }

    def step(self, request: Tensors) -> Tensors:
        """Logits of a segment and the memory after it."""
        import tensorflow as tf

        inputs, memory, _ = self._read(request)
        hidden, memory = self.backbone.call_with_memory(inputs, memory)
        logits = self.lm.head.logits(hidden, inputs["document_ids"])
        return {
            "logits": tf.cast(logits, tf.float32),
            **self._write(memory, "new_"),
        }

    def score(self, request: Tensors) -> Tensors:
        """Loss of each target in nats and the memory after the segment."""
        import tensorflow as tf

        inputs, memory, targets = self._read(request)
        hidden, memory = self.backbone.call_with_memory(inputs, memory)
        losses = self._losses(hidden, targets, inputs["document_ids"])
        return {
            "token_losses": tf.cast(losses, tf.float32),
            **self._write(memory, "new_"),
        }

    def _losses(
        self, hidden: Tensor, targets: Tensor, document_ids: Tensor
    ) -> Tensor:
        """Loss of each target `(B, T)`, without the logits where possible."""
        import tensorflow as tf

        head = self.lm.head
        if head.deferred:
            return head.token_losses(hidden, targets, document_ids)
        # As in Keras, but LiteRT and OpenVINO know not its fused operation.
        logits = tf.cast(head.logits(hidden, document_ids), tf.float32)
        read = document_ids >= 0
        losses = -tf.gather(
            tf.nn.log_softmax(logits), tf.where(read, targets, 0), batch_dims=2
        )
        return tf.where(read, losses, 0.0)

    def initial_memory(self, request: Tensors) -> Tensors:
        """The memory of streams that read nothing; `rows` counts them."""
        import tensorflow as tf

        request = checked(request, same_rows(request))
        rows = tf.shape(request["rows"])[0]
        shape = (rows, *self.memory_shapes["memory"][0][1:])
        states = tf.zeros(shape, self.backbone.memory_dtype)
        length = tf.zeros(rows, tf.int32)
        return self._write({"states": states, "length": length})

    def _read(self, request: Tensors) -> tuple[Tensors, Memory, Tensor]:
        """A request as inputs and memory of the backbone, and targets."""
        import tensorflow as tf

        shape = tf.shape(request["token_ids"])
        request = checked(
            request,
            [
                *same_rows(request),
                (
                    shape[1] > 0,
                    "`token_ids` must hold at least one token a row. Received:",
                    shape,
                ),
            ],
        )
        shape = tf.shape(request["token_ids"])  # of what has been checked
        read = tf.sequence_mask(request["token_length"], shape[1])  # (B, T)
        request = checked(request, self._conditions(request, shape, read))
        inputs = self.lm.normalize_inputs(
            {
                "token_ids": request["token_ids"],
                "document_ids": tf.where(read, 0, -1),
            }
        )
        for name, (wanted, _) in self.memory_shapes.items():
            request[name] = tf.ensure_shape(request[name], wanted)
        memory = {
            "states": decode_states(request, self.backbone.memory_dtype),
            "length": request["memory_length"],
            "document": tf.zeros_like(request["memory_length"]),
        }
        return inputs, memory, request.get("targets")

    def _conditions(
        self, request: Tensors, shape: Tensor, read: Tensor
    ) -> list[Any]:
        """What must hold for a request with token ids of `shape`."""
        import tensorflow as tf

        last = self.backbone.vocabulary_size - 1
        conditions = [
            of_shape(name, request[name], wanted)
            for name, (wanted, _) in self.memory_shapes.items()
        ]
        conditions += [
            within("token_length", request["token_length"], 0, shape[1]),
            within(
                "memory_length", request["memory_length"], 0, self.memory_length
            ),
            within("token_ids", request["token_ids"], 0, last, read),
        ]
        if "targets" in request:
            targets = request["targets"]
            conditions += [
                (
                    tf.reduce_all(tf.shape(targets) == shape),
                    "`targets` must have the shape of `token_ids`. Received:",
                    tf.shape(targets),
                    shape,
                ),
                within("targets", targets, 0, last, read),
            ]
        return conditions

    def _write(self, memory: Memory, prefix: str = "") -> Tensors:
        return {
            **encode_states(memory["states"], self.memory_format, prefix),
            f"{prefix}memory_length": memory["length"],
        }


def graph_function(
    function: Callable[[Tensors], Tensors], shapes: Shapes
) -> Any:
    """A `tf.function` of a dict of tensors of these shapes and dtypes."""
    import tensorflow as tf

    specs = {
        name: tf.TensorSpec(shape, dtype, name=name)
        for name, (shape, dtype) in shapes.items()
    }
    return tf.function(function, input_signature=[specs], autograph=False)
