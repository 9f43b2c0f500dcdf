"""Text as pieces of a SentencePiece model, run by KerasHub."""

import hashlib
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import keras_hub

from keras_txl.tokenizers.byte_pair_tokenizer import plain_ids
from keras_txl.tokenizers.vocabulary_tokenizer import as_strings


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLSentencePieceTokenizer(
    keras_hub.tokenizers.SentencePieceTokenizer
):
    """Turns text into the ids of SentencePiece pieces.

    Models of `train_tokenizer` normalise nothing and fall back to bytes:
    `detokenize(tokenize(text)) == text` for every string without NUL and `▁`
    (U+2581), which SentencePiece uses for spaces. A model trained elsewhere
    does what its own settings say. There is no start or end token. Bytes that
    are no UTF-8 are read as U+FFFD.

    Ids inside of `tf.data` and `tf.function` are the same; the operations
    there need TensorFlow Text.

    Args:
        proto: path of a SentencePiece model, or its bytes.
        **kwargs: other arguments of
            `keras_hub.tokenizers.SentencePieceTokenizer`.

    Example:
    ```python
    tokenizer = train_tokenizer(
        "sentence-piece",
        ["the ship sails, the wind turns\\n"] * 9,
        vocabulary_size=290,
    )
    tokenizer.detokenize(tokenizer("the wind"))  # "the wind"
    ```
    """

    def __init__(self, proto: Any = None, **kwargs: Any) -> None:
        if isinstance(proto, (str, os.PathLike)):
            proto = Path(proto).read_bytes()
        super().__init__(proto=proto, **kwargs)
        self._graph: Callable[[], Any] = lambda: None
        self.start_token_id = None
        self.end_token_id = None
        self.pad_token_id = 0

    def tokenize(self, inputs: Any) -> Any:
        """Turn text into ids, as the other tokenizers do."""
        self._renew_in_graph()
        return super().tokenize(as_strings(inputs))

    def detokenize(self, inputs: Any) -> Any:
        """Turn ids into text, as the other tokenizers do."""
        self._renew_in_graph()
        return super().detokenize(plain_ids(inputs))

    def _renew_in_graph(self) -> None:
        """Load the model again for a new graph.

        `keras.utils.set_random_seed` clears TensorFlow's kernels, one of
        which owns the model that TensorFlow Text loaded. A graph keeps one
        for all its calls: what is exported must still be an attribute.
        """
        import tensorflow as tf

        if tf.executing_eagerly():
            return
        graph = tf.compat.v1.get_default_graph()
        if self._graph() is not graph:
            self._graph = weakref.ref(graph)
            with tf.init_scope():
                self.set_proto(self.proto)

    def load_assets(self, dir_path: str | os.PathLike[str]) -> None:
        """Read the model."""
        self.set_proto(Path(dir_path, self.file_assets[0]).read_bytes())

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides about ids, the same in each process."""
        return hashlib.sha256(self.proto).hexdigest()
