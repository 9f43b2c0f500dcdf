"""What character and word tokenizers share: a vocabulary and two paths.

Outside of TensorFlow graphs, text is read by Python; inside of `tf.data`,
`tf.function` and exported signatures, by core TensorFlow operations that need
no package beside TensorFlow. Both give the same ids.
"""

import os
import re
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_txl.tokenizers.vocabulary import FILE_NAME
from keras_txl.tokenizers.vocabulary import Vocabulary
from keras_txl.tokenizers.vocabulary import fingerprint

_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class VocabularyTokenizer(keras_hub.tokenizers.Tokenizer):
    """Base of the tokenizers whose tokens are in a list.

    Subclasses have `encode_text`, `decode_ids` for Python and
    `encode_strings`, `decode_tensor` for graphs.

    Args:
        vocabulary: strings in the order of their ids, or the path of a
            `vocabulary.json`. `None`: set later, as by loading a preset.
        dtype: integer dtype of the ids.
        **kwargs: other keyword arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        vocabulary: Iterable[str] | str | os.PathLike[str] | None = None,
        dtype: Any = "int32",
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        self.file_assets = [FILE_NAME]
        self.start_token_id = None
        self.end_token_id = None
        self.pad_token_id = 0
        self._vocabulary: Vocabulary | None = None
        if vocabulary is not None:
            self.set_vocabulary(vocabulary)

    def set_vocabulary(
        self, vocabulary: Iterable[str] | str | os.PathLike[str]
    ) -> None:
        """Take another vocabulary, as the argument of the constructor."""
        if isinstance(vocabulary, (str, os.PathLike)):
            self._vocabulary = Vocabulary.read(vocabulary)
        else:
            self._vocabulary = Vocabulary(vocabulary)
        self.prepare(self._vocabulary)

    def prepare(self, vocabulary: Vocabulary) -> None:
        """Check a new vocabulary and make the tables of both paths."""
        raise NotImplementedError

    def encode_text(self, text: str) -> np.ndarray:
        """Ids of one text, an integer array."""
        raise NotImplementedError

    def decode_ids(self, ids: Sequence[int]) -> str:
        """The text of ids that are in the vocabulary."""
        raise NotImplementedError

    def encode_strings(self, texts: Any) -> Any:
        """Ids of a string tensor `(N,)`, a ragged tensor `(N, None)`."""
        raise NotImplementedError

    def decode_tensor(self, ids: Any) -> Any:
        """Strings of a tensor or ragged tensor of ids, joined over the last
        axis."""
        raise NotImplementedError

    def tokenize(self, inputs: Any) -> Any:
        """Turn text into ids.

        Bytes that are no UTF-8 are read as U+FFFD.

        Args:
            inputs: one text or a batch of them; strings, bytes or a string
                tensor.

        Returns:
            An integer array of shape `(length,)` for one text, a list of
            lists for a batch; a tensor, ragged for a batch, inside `tf.data`
            and `tf.function`.
        """
        import tensorflow as tf

        self.known()
        if not tf.executing_eagerly():
            texts = tf.convert_to_tensor(inputs)
            single = texts.shape.rank == 0
            texts = tf.strings.unicode_transcode(
                tf.reshape(texts, (-1,)), "UTF-8", "UTF-8", errors="replace"
            )
            ids = self.encode_strings(texts)
            ids = ids.with_values(tf.cast(ids.values, self.compute_dtype))
            return ids[0] if single else ids
        texts = as_strings(inputs)
        if isinstance(texts, str):
            return self.encode_text(texts).astype(self.compute_dtype)
        return [self.encode_text(text).tolist() for text in texts]

    def detokenize(self, inputs: Any) -> Any:
        """Turn ids into text.

        Args:
            inputs: ids of one text, or a batch of them; lists or tensors, all
                of one length or not.

        Returns:
            A string for one text, a list of strings for a batch; a string
            tensor inside `tf.data` and `tf.function`.

        Raises:
            ValueError: if an id is not in the vocabulary.
        """
        import tensorflow as tf

        self.known()
        if not tf.executing_eagerly():
            return self.decode_tensor(inputs)
        return self._decode(ids_as_lists(inputs))

    def _decode(self, ids: Any) -> Any:
        if isinstance(ids, int):
            ids = [ids]
        if ids and isinstance(ids[0], list):
            return [self._decode(row) for row in ids]
        size = self.vocabulary_size()
        for token in ids:
            if not isinstance(token, int) or not 0 <= token < size:
                raise ValueError(
                    f"Token ids must be integers from 0 to {size - 1}. "
                    f"Received: {token} among {len(ids)} ids. Use the "
                    "tokenizer that the model was trained with, and leave "
                    "out padding by its mask."
                )
        return self.decode_ids(ids)

    def call(self, inputs: Any, training: Any = None) -> Any:
        return self.tokenize(inputs)

    def known(self) -> Vocabulary:
        """The vocabulary.

        Raises:
            ValueError: if there is none yet.
        """
        if self._vocabulary is None:
            raise ValueError(
                f"{type(self).__name__} needs a vocabulary. Received: none. "
                "Pass `vocabulary`, or load the tokenizer from a preset."
            )
        return self._vocabulary

    def get_vocabulary(self) -> list[str]:
        """Tokens in the order of their ids."""
        return list(self.known().tokens)

    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return len(self.known())

    def id_to_token(self, id: int) -> str:
        """The token of an id."""
        return self.known().tokens[id]

    def token_to_id(self, token: str) -> int:
        """The id of a token.

        Raises:
            ValueError: if the token is not in the vocabulary.
        """
        ids = self.known().ids
        if token not in ids:
            raise ValueError(
                f"The token must be in the vocabulary. Received: {token!r}."
            )
        return ids[token]

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides about ids, the same in each process."""
        config = self.get_config()
        for name in ("name", "trainable", "dtype", "config_file"):
            config.pop(name, None)
        return fingerprint(
            [type(self).__name__, config, list(self.known().tokens)]
        )

    def save_assets(self, dir_path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as JSON."""
        self.known().write(Path(dir_path) / FILE_NAME)

    def load_assets(self, dir_path: str | os.PathLike[str]) -> None:
        """Read the vocabulary."""
        self.set_vocabulary(Path(dir_path) / FILE_NAME)


def ids_as_lists(ids: Any) -> Any:
    """Return ids as an int or nested lists of int.

    Args:
        ids: an int, lists, an array, a tensor of any backend or a ragged one.
    """
    if isinstance(ids, int):
        return ids
    if isinstance(ids, (list, tuple)):
        return [ids_as_lists(item) for item in ids]
    if hasattr(ids, "to_list"):  # tf.RaggedTensor
        return ids.to_list()
    if keras.ops.is_tensor(ids):
        ids = keras.ops.convert_to_numpy(ids)
    return np.asarray(ids).tolist()


def as_strings(texts: Any) -> Any:
    """Return one text as a str, several as a list of str.

    Args:
        texts: str or bytes, or a list, array or tensor of such; what is no
            UTF-8 becomes U+FFFD. Tensors in graphs are returned as they are.
    """
    import tensorflow as tf

    if not tf.executing_eagerly():
        return texts
    if hasattr(texts, "numpy"):  # a tensor of TensorFlow
        texts = texts.numpy()
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    if isinstance(texts, (list, tuple)):
        return [as_strings(text) for text in texts]
    if isinstance(texts, bytes):
        return texts.decode("utf-8", errors="replace")
    if not isinstance(texts, str):
        raise TypeError(
            "Texts must be strings or bytes. Received: "
            f"{type(texts).__name__}. Pass one text, or a list of texts."
        )
    # Surrogates of a command line in another encoding stand for bytes; others
    # are halves of characters.
    texts = _HALVES.sub("\ufffd", texts)
    return texts.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
