"""Text as characters of a fixed set, such as the 27 symbols of text8."""

import os
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_txl.tokenizers.vocabulary import Vocabulary
from keras_txl.tokenizers.vocabulary_tokenizer import VocabularyTokenizer

TEXT8_CHARACTERS = " abcdefghijklmnopqrstuvwxyz"


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLCharacterTokenizer(VocabularyTokenizer):
    """Turns text into the ids of its characters (Unicode code points).

    `detokenize(tokenize(text)) == text` for every text over the vocabulary.
    There is no start or end token. Ids are the same outside and inside of
    `tf.data`, `tf.function` and exported signatures, where core TensorFlow
    operations are all that is needed.

    Args:
        vocabulary: characters in the order of their ids, one str or a list;
            or `None`, to be set later. `keras_txl.tokenizers` has
            `TEXT8_CHARACTERS`, the 27 symbols of text8 in alphabetical order;
            `train_tokenizer` orders them by frequency, as the released code
            does.
        unknown_token: character of the vocabulary that stands for those that
            are not in it. Default: they are an error.
        dtype: integer dtype of the ids.
        **kwargs: other keyword arguments of `keras.layers.Layer`.

    Raises:
        ValueError: if a token is not one character, or `unknown_token` is not
            in the vocabulary.

    Example:

    >>> tokenizer = TransformerXLCharacterTokenizer(TEXT8_CHARACTERS)
    >>> np.array(tokenizer("a cat"))
    array([ 1,  0,  3,  1, 20], dtype=int32)
    >>> tokenizer.detokenize([1, 0, 3, 1, 20])
    'a cat'
    """

    def __init__(
        self,
        vocabulary: Iterable[str] | None = None,
        unknown_token: str | None = None,
        dtype: Any = "int32",
        **kwargs: Any,
    ) -> None:
        self.unknown_token = unknown_token
        super().__init__(vocabulary, dtype, **kwargs)

    def set_vocabulary(
        self, vocabulary: Iterable[str] | str | os.PathLike[str]
    ) -> None:
        # A str holds the characters themselves; files come as paths.
        if isinstance(vocabulary, str):
            vocabulary = list(vocabulary)
        super().set_vocabulary(vocabulary)

    def prepare(self, vocabulary: Vocabulary) -> None:
        for token in vocabulary.tokens:
            if len(token) != 1:
                raise ValueError(
                    "The tokens must be single characters. Received: "
                    f"{token!r}. Use `TransformerXLWordTokenizer` for words."
                )
        unknown = -1
        if self.unknown_token is not None:
            unknown = vocabulary.ids.get(self.unknown_token, -1)
            if unknown < 0:
                raise ValueError(
                    "`unknown_token` must be in the vocabulary. Received: "
                    f"{self.unknown_token!r}. Add it, or leave it out."
                )
        codes = np.array([ord(token) for token in vocabulary.tokens])
        order = np.argsort(codes)
        self._codes = codes[order].astype("int32")
        self._code_ids = order.astype("int32")
        self._unknown_id = unknown

    def encode_text(self, text: str) -> np.ndarray:
        codes = np.frombuffer(text.encode("utf-32-le"), "<u4").astype("int32")
        place = np.searchsorted(self._codes, codes)
        place = np.minimum(place, len(self._codes) - 1)
        found = self._codes[place] == codes
        if not found.all() and self._unknown_id < 0:
            wrong = chr(codes[np.argmin(found)])
            raise ValueError(
                "Each character must be in the vocabulary. Received: "
                f"{wrong!r} in {text[:40]!r}. Prepare the text, or pass "
                "`unknown_token`."
            )
        return np.where(found, self._code_ids[place], self._unknown_id)

    def decode_ids(self, ids: Sequence[int]) -> str:
        tokens = self.known().tokens
        return "".join([tokens[token] for token in ids])

    def encode_strings(self, texts: Any) -> Any:
        import tensorflow as tf

        codes = tf.strings.unicode_decode(texts, "UTF-8")
        place = tf.searchsorted(self._codes, codes.values)
        place = tf.minimum(place, len(self._codes) - 1)
        found = tf.gather(self._codes, place) == codes.values
        ids = tf.where(found, tf.gather(self._code_ids, place), -1)
        if self._unknown_id >= 0:
            return codes.with_values(tf.where(found, ids, self._unknown_id))
        check = tf.debugging.Assert(
            tf.reduce_all(found),
            ["Each character must be in the vocabulary. Received:", texts],
        )
        with tf.control_dependencies([check]):
            return codes.with_values(tf.identity(ids))

    def decode_tensor(self, ids: Any) -> Any:
        import tensorflow as tf

        tokens = tf.constant(self.known().tokens)
        return tf.strings.reduce_join(tf.gather(tokens, ids), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "unknown_token": self.unknown_token}
