"""Text as UTF-8 bytes and back, without loss."""

import os
from typing import Any

import keras
import keras_hub

from keras_txl.tokenizers.vocabulary import fingerprint
from keras_txl.tokenizers.vocabulary_tokenizer import ids_as_lists


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLByteTokenizer(keras_hub.tokenizers.ByteTokenizer):
    """Turns text into the ids of its UTF-8 bytes, 0 to 255.

    Nothing is lower-cased, normalised or dropped: for every string
    `detokenize(tokenize(text)) == text`. There is no start or end token, and
    the id of padding, 0, is the ordinary byte NUL as well: what is padding is
    told by a mask, never by the id. Bytes that are no UTF-8, such as half a
    character at the end of generated text, become U+FFFD.

    Outside of `tf.data` and `tf.function`, `detokenize` returns Python
    strings on every backend.

    Args:
        sequence_length: pad with 0 or cut every text to this many bytes.
            Default: keep the length of each.
        dtype: integer dtype of the ids.
        **kwargs: other keyword arguments of `keras.layers.Layer`, including
            `name`.

    Example:

    >>> tokenizer = TransformerXLByteTokenizer()
    >>> np.array(tokenizer("né"))
    array([110, 195, 169], dtype=int32)
    >>> tokenizer.detokenize([110, 195, 169])
    'né'
    """

    def __init__(
        self,
        sequence_length: int | None = None,
        dtype: Any = "int32",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            lowercase=False,
            normalization_form=None,
            sequence_length=sequence_length,
            dtype=dtype,
            **kwargs,
        )
        self.file_assets: list[str] = []
        self.start_token_id = None
        self.end_token_id = None
        self.pad_token_id = 0

    def tokenize(self, inputs: Any) -> Any:
        """Turn text into ids.

        Args:
            inputs: one text or a batch of them; strings, bytes or a string
                tensor.

        Returns:
            An integer array of shape `(length,)` for one text, a list of
            lists for a batch; a tensor, ragged for a batch, inside `tf.data`
            and `tf.function`.
        """
        import tensorflow as tf

        if tf.executing_eagerly():
            return super().tokenize(inputs)
        # The method of KerasHub fails on a batch of empty texts.
        if not isinstance(inputs, tf.RaggedTensor):
            inputs = tf.convert_to_tensor(inputs)
        single = inputs.shape.rank == 0
        ids = tf.ragged.map_flat_values(
            lambda byte: tf.reshape(tf.io.decode_raw(byte, tf.uint8), (-1,)),
            tf.strings.bytes_split(inputs[None] if single else inputs),
        )
        ids = tf.cast(ids, self.compute_dtype)
        if self.sequence_length:
            outer = [None] * (ids.shape.rank - 1)
            ids = ids.to_tensor(shape=[*outer, self.sequence_length])
        return ids[0] if single else ids

    def detokenize(self, inputs: Any) -> Any:
        """Turn ids into text.

        Args:
            inputs: ids from 0 to 255 of one text, or a batch of them; lists
                or tensors, all of one length or not.

        Returns:
            A string for one text, a list of strings for a batch; a string
            tensor inside `tf.data` and `tf.function`.

        Raises:
            ValueError: if an id is no byte.
        """
        import tensorflow as tf

        if tf.executing_eagerly():
            return _decode(ids_as_lists(inputs))
        # The method of KerasHub would drop NUL as padding.
        characters = tf.constant([bytes([byte]) for byte in range(256)])
        text = tf.strings.reduce_join(tf.gather(characters, inputs), axis=-1)
        return tf.strings.unicode_transcode(
            text, "UTF-8", "UTF-8", errors="replace"
        )

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides about ids, the same in each process."""
        return fingerprint([type(self).__name__, self.sequence_length])

    def save_assets(self, dir_path: str | os.PathLike[str]) -> None:
        """Write the files of the tokenizer; bytes need none."""

    def load_assets(self, dir_path: str | os.PathLike[str]) -> None:
        """Read the files of the tokenizer; bytes need none."""

    def load_preset_assets(self, preset: str) -> None:
        """Read the files of a preset; bytes need none."""

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        # Fixed here; other values would lose text.
        for name in (
            "lowercase",
            "normalization_form",
            "errors",
            "replacement_char",
        ):
            del config[name]
        return config


def _decode(ids: Any) -> Any:
    if isinstance(ids, int):
        ids = [ids]
    if ids and isinstance(ids[0], list):
        return [_decode(row) for row in ids]
    try:
        return bytes(ids).decode("utf-8", errors="replace")
    except (ValueError, TypeError) as error:
        wrong = [x for x in ids if not isinstance(x, int) or not 0 <= x < 256]
        raise ValueError(
            "Token ids must be bytes, integers from 0 to 255. Received: "
            f"{wrong[0]} among {len(ids)} ids. Use the tokenizer that the "
            "model was trained with, and leave out padding by its mask."
        ) from error
