"""`generate_text`: strings in, strings out, the tokenizer in the graph.

Any tokenizer works whose `tokenize` gives a ragged tensor and whose
`detokenize` takes one inside a `tf.function`. What it is made of decides
where the signature can live: TensorFlow's own operations load everywhere,
others only where their library is linked in. (TensorFlow only.)

Axes: B rows, P prompt.
"""

from collections.abc import Sequence
from typing import Any

from keras_txl.export.generate_signature import SETTINGS
from keras_txl.export.generate_signature import GenerateSignature
from keras_txl.export.graph_checks import checked
from keras_txl.export.graph_checks import same_rows
from keras_txl.export.signatures import Shapes
from keras_txl.export.signatures import Tensors

GENERATE_TEXT: Shapes = {"prompts": ((None,), "string"), **SETTINGS}


class GenerateTextSignature:
    """Continues texts, each row by settings of its own.

    Args:
        lm: a `TransformerXLCausalLM` with a preprocessor.
        generate: the signature over ids.
    """

    def __init__(self, lm: Any, generate: GenerateSignature) -> None:
        self.preprocessor = lm.preprocessor
        self.tokenizer = lm.preprocessor.tokenizer
        self.generate = generate

    def __call__(self, request: Tensors) -> Tensors:
        """The prompts and what continues them, without special tokens."""
        import tensorflow as tf

        prompts = request["prompts"]
        readable = tf.strings.unicode_transcode(
            prompts, "UTF-8", "UTF-8", errors="ignore"
        )
        request = checked(
            request,
            [
                *same_rows(request),
                (
                    tf.reduce_all(readable == prompts),
                    "`prompts` must be UTF-8. Received others in rows",
                    tf.where(readable != prompts)[:, 0],
                ),
            ],
        )
        tokens = self._tokens(request.pop("prompts"))
        length = tf.cast(tokens.row_lengths(), tf.int32)
        found = checked(
            {"token_ids": tokens.to_tensor(), "token_length": length},
            [
                (
                    tf.reduce_all(length > 0),
                    "`prompts` must hold at least one token each. Received "
                    "none in rows",
                    tf.where(length == 0)[:, 0],
                )
            ],
        )
        outputs = self.generate({**request, **found})
        ragged = tf.RaggedTensor.from_tensor(
            outputs["token_ids"], outputs["token_length"]
        )
        texts = self.tokenizer.detokenize(
            _without(ragged, [self.tokenizer.start_token_id])
        )
        # Tokens may end inside of a character; clients expect text.
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        return {"texts": tf.ensure_shape(texts, [None])}

    def _tokens(self, prompts: Any) -> Any:
        """Ragged ids of prompts (B,), behind the start token if it is asked."""
        import tensorflow as tf

        tokens = self.tokenizer.tokenize(prompts)
        if not isinstance(tokens, tf.RaggedTensor):
            raise ValueError(
                "The tokenizer of an exported model must keep the length of "
                "each text. Received: a tokenizer with sequence_length. Set "
                "that of the preprocessor instead."
            )
        tokens = tf.cast(tokens, tf.int32)
        start = self.tokenizer.start_token_id
        if self.preprocessor.add_start_token and start is not None:
            first = tf.fill([tf.shape(prompts)[0], 1], int(start))
            tokens = tf.concat([first, tokens], axis=1)
        return tokens


def _without(tokens: Any, special: Sequence[int | None]) -> Any:
    """Ragged ids without those of special tokens."""
    import tensorflow as tf

    for token in special:
        if token is not None:
            tokens = tf.ragged.boolean_mask(tokens, tokens != token)
    return tokens
