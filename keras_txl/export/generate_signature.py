"""`generate`: the loop inside the graph, so that memory stays off the wire.

A prompt is read into memory in segments. Then one token of each row is fed and
the next one drawn, on a ring of keys and values where the model has one.
(TensorFlow only.)

Axes: B rows, P prompt, K new tokens, V vocabulary, M memory slots.
"""

from collections.abc import Sequence
from typing import Any

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.export.graph_checks import checked
from keras_txl.export.graph_checks import same_rows
from keras_txl.export.graph_checks import within
from keras_txl.export.graph_sampling import draw_rows
from keras_txl.export.graph_sampling import row_uniforms
from keras_txl.export.signatures import SEGMENT
from keras_txl.export.signatures import Shapes
from keras_txl.export.signatures import Tensors

READ_LENGTH = 256
"""Tokens of a prompt that are read at once."""

MOST_NEW_TOKENS = 2**20
MOST_TEMPERATURE = 1e4
"""Beyond these a request is taken for a mistake."""

SETTINGS: Shapes = {
    "max_new_tokens": ((None,), "int32"),
    "temperature": ((None,), "float32"),
    "top_k": ((None,), "int32"),
    "top_p": ((None,), "float32"),
    "seed": ((None,), "int32"),
}
GENERATE: Shapes = {**SEGMENT, **SETTINGS}


class GenerateSignature:
    """Continues prompts, each row by settings of its own.

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M of at least 1.
        stop_token_ids: ids that end a row, and are no part of it.
    """

    def __init__(
        self, lm: Any, memory_length: int, stop_token_ids: Sequence[int]
    ) -> None:
        from keras_txl.models.token_decoding import TokenDecoder

        self.lm = lm
        self.decoder = TokenDecoder(lm, memory_length)
        self.memory_length = memory_length
        self.stop_token_ids = list(stop_token_ids)

    def __call__(self, request: Tensors) -> Tensors:
        """Prompts and what continues them, and how long each row is."""
        import tensorflow as tf

        request = self._checked(request)
        token_ids, length = request["token_ids"], request["token_length"]
        memory = self._read(token_ids, length - 1)
        newest = tf.gather(token_ids, length[:, None] - 1, batch_dims=1)
        drawn, count = self._decode(memory, newest, request)
        return _append(token_ids, length, drawn, count)

    def _checked(self, request: Tensors) -> Tensors:
        import tensorflow as tf

        request = checked(request, same_rows(request))
        length = tf.shape(request["token_ids"])[1]
        read = tf.sequence_mask(request["token_length"], length)
        last = self.lm.backbone.vocabulary_size - 1
        least_p = tf.constant(1e-6)
        return checked(
            request,
            [
                within("token_length", request["token_length"], 1, length),
                within("token_ids", request["token_ids"], 0, last, read),
                within(
                    "max_new_tokens",
                    request["max_new_tokens"],
                    0,
                    MOST_NEW_TOKENS,
                ),
                within(
                    "temperature", request["temperature"], 0.0, MOST_TEMPERATURE
                ),
                within("top_k", request["top_k"], 0, tf.int32.max),
                within("top_p", request["top_p"], least_p, 1.0),
            ],
        )

    def _read(self, token_ids: Tensor, length: Tensor) -> Memory:
        """Memory after the first `length` tokens of each row."""
        import tensorflow as tf

        from keras_txl.layers.segment_memory import empty_memory

        backbone = self.lm.backbone
        rows, total = tf.unstack(tf.shape(token_ids))
        memory = empty_memory(
            rows,
            backbone.num_layers,
            self.memory_length,
            backbone.hidden_dim,
            backbone.memory_dtype,
        )

        def read_more(begin: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
            ids = token_ids[:, begin : begin + READ_LENGTH]
            places = begin + tf.range(tf.shape(ids)[1])
            mask = places[None] < length[:, None]
            ids = tf.where(mask, ids, 0)
            return begin + READ_LENGTH, self.decoder.read(ids, mask, memory)

        shapes = {
            "states": (None, *memory["states"].shape[1:]),
            "length": (None,),
            "document": (None,),
        }
        _, memory = tf.while_loop(
            lambda begin, _: begin < tf.minimum(total, tf.reduce_max(length)),
            read_more,
            (tf.constant(0), memory),
            (
                tf.TensorShape([]),
                {name: tf.TensorShape(shapes[name]) for name in memory},
            ),
        )
        return memory

    def _decode(
        self, memory: Memory, newest: Tensor, request: Tensors
    ) -> tuple[Tensor, Tensor]:
        """New tokens `(B, K)`, and how many of them each row has."""
        import tensorflow as tf

        wanted = request["max_new_tokens"]
        most = tf.reduce_max(wanted)
        settings = [request[key] for key in ("temperature", "top_k", "top_p")]
        terms = self.decoder.terms()
        stops = tf.constant(self.stop_token_ids, tf.int32)

        def goes_on(step: Tensor, ended: Tensor, *_: Any) -> Tensor:
            return (step < most) & ~tf.reduce_all(ended)

        def feed_and_draw(
            step: Tensor,
            ended: Tensor,
            count: Tensor,
            newest: Tensor,
            drawn: Any,
            state: Any,
        ) -> tuple[Any, ...]:
            logits, state = self.decoder.step(newest, state, terms)
            uniforms = row_uniforms(request["seed"], step)
            tokens = draw_rows(logits, uniforms, *settings)
            stopped = tf.reduce_any(tokens[:, None] == stops[None], axis=-1)
            ended = ended | stopped
            count += tf.cast(~ended, tf.int32)
            ended = ended | (count >= wanted)
            drawn = drawn.write(step + 1, tokens)
            return step + 1, ended, count, tokens[:, None], drawn, state

        zeros = tf.zeros_like(wanted)
        # The first place is no token: nothing at all could not be stacked.
        room = tf.TensorArray(tf.int32, most + 1, element_shape=[None])
        room = room.write(0, zeros)
        start = (
            tf.constant(0),
            wanted <= 0,
            zeros,
            newest,
            room,
            self.decoder.to_state(memory),
        )
        _, _, count, _, room, _ = tf.while_loop(
            goes_on, feed_and_draw, start, parallel_iterations=1
        )
        # Steps that no row needed were never written.
        return tf.transpose(room.stack()[1:]), count


def _append(
    token_ids: Tensor, length: Tensor, drawn: Tensor, count: Tensor
) -> Tensors:
    """Rows of prompt and new tokens without a gap, zeros behind them."""
    import tensorflow as tf

    rows = tf.concat([token_ids, drawn], axis=1)  # (B, P + K)
    prompt = tf.shape(token_ids)[1]
    places = tf.range(tf.shape(rows)[1])[None]
    total = (length + count)[:, None]
    sources = tf.where(
        places < length[:, None], places, places - length[:, None] + prompt
    )
    inside = places < total
    taken = tf.gather(rows, tf.where(inside, sources, 0), batch_dims=1)
    return {
        "token_ids": tf.where(inside, taken, 0),
        "token_length": length + count,
    }
