"""Texts as padded ids, for a classifier."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_txl.checks import check_optional_integer
from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.special_tokens import check_special_tokens
from keras_txl.models.text_encoding import encode_texts
from keras_txl.tokenizers import TransformerXLByteTokenizer


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLTextClassifierPreprocessor(
    keras_hub.models.TextClassifierPreprocessor
):
    """Turns texts into padded ids, a text a row, and passes labels on.

    Args:
        tokenizer: a tokenizer of `keras_txl.tokenizers`.
        sequence_length: int. Tokens of a row: longer texts are cut, shorter
            ones padded. `None`: nothing is cut, and rows are as long as the
            longest text among them.
        add_start_token: bool. Needs a tokenizer that has one.
        add_end_token: bool. Needs a tokenizer that has one.
        **kwargs: other arguments of
            `keras_hub.models.TextClassifierPreprocessor`.

    Call arguments:
        x: a string or a batch of strings.
        y: labels, passed on.
        sample_weight: passed on.

    Returns:
        Dict of `token_ids` (int32) and `padding_mask` (bool) of shape
        `(length,)` or `(batch, length)`; with labels a tuple of it, them and
        the weights.

    Example:

    >>> preprocessor = keras_txl.models.TransformerXLTextClassifierPreprocessor(
    ...     tokenizer, sequence_length=4
    ... )
    >>> preprocessor(["abcdef", "ab"])["padding_mask"].tolist()
    [[True, True, True, True], [True, True, False, False]]
    """

    backbone_cls = TransformerXLBackbone
    tokenizer_cls = TransformerXLByteTokenizer

    def __init__(
        self,
        tokenizer: Any,
        sequence_length: int | None = None,
        add_start_token: bool = False,
        add_end_token: bool = False,
        **kwargs: Any,
    ) -> None:
        check_special_tokens(tokenizer, add_start_token, add_end_token)
        special_tokens = int(add_start_token) + int(add_end_token)
        check_optional_integer(
            "sequence_length", sequence_length, max(1, special_tokens)
        )
        super().__init__(
            tokenizer=tokenizer, sequence_length=sequence_length, **kwargs
        )
        self.add_start_token = add_start_token
        self.add_end_token = add_end_token

    def build(self, input_shape: Any = None) -> None:
        self.built = True

    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        import tensorflow as tf

        if isinstance(x, tuple):
            raise ValueError(
                "`x` must be one text for each label. Received: a tuple of "
                f"{len(x)}. Join the parts of a text to one string."
            )
        if tf.executing_eagerly():
            inputs = self._pack(x)
        else:
            inputs = self._pack_in_graph(x)
        return keras.utils.pack_x_y_sample_weight(inputs, y, sample_weight)

    def encode(self, texts: Any, vocabulary_size: int) -> list[np.ndarray]:
        """Ids of each text, cut to `sequence_length` and not padded.

        Args:
            texts: list of str, or list of 1-D arrays of int ids.
            vocabulary_size: int. Ids must be below it.

        Returns:
            List of int32 arrays of shape `(length,)`.
        """
        ids = encode_texts(texts, self, vocabulary_size)
        if self.sequence_length is None:
            return ids
        kept = self.sequence_length - int(self.add_end_token)
        end = [self.tokenizer.end_token_id] if self.add_end_token else []
        return [
            text
            if len(text) <= self.sequence_length
            else np.append(text[:kept], end).astype("int32")
            for text in ids
        ]

    def _pack(self, x: Any) -> dict[str, np.ndarray]:
        if hasattr(x, "numpy"):  # a tensor of strings
            x = x.numpy()
        if isinstance(x, np.ndarray):
            x = x.tolist()
        single = isinstance(x, (str, bytes))
        ids = self.encode(
            [x] if single else x, self.tokenizer.vocabulary_size()
        )
        width = self.sequence_length or max(map(len, ids), default=0)
        token_ids = np.full(
            (len(ids), width), self.tokenizer.pad_token_id, "int32"
        )
        padding_mask = np.zeros((len(ids), width), bool)
        for row, text in enumerate(ids):
            token_ids[row, : len(text)] = text
            padding_mask[row, : len(text)] = True
        packed = {"token_ids": token_ids, "padding_mask": padding_mask}
        return {k: v[0] for k, v in packed.items()} if single else packed

    def _pack_in_graph(self, x: Any) -> dict[str, Any]:
        """Inside `tf.data`, on all backends."""
        import tensorflow as tf

        x = tf.convert_to_tensor(x)
        single = x.shape.rank == 0
        ids = tf.cast(self.tokenizer(x[None] if single else x), "int32")
        rows = ids.nrows()
        start = [self.tokenizer.start_token_id] if self.add_start_token else []
        end = [self.tokenizer.end_token_id] if self.add_end_token else []
        if self.sequence_length is not None:
            ids = ids[:, : self.sequence_length - len(start) - len(end)]
        ids = tf.concat(
            [
                tf.fill((rows, len(start)), (start or [0])[0]),
                ids,
                tf.fill((rows, len(end)), (end or [0])[0]),
            ],
            axis=1,
        )
        shape = [None, self.sequence_length]
        packed = {
            "token_ids": ids.to_tensor(
                self.tokenizer.pad_token_id, shape=shape
            ),
            "padding_mask": tf.ones_like(ids, "bool").to_tensor(
                False, shape=shape
            ),
        }
        return {k: v[0] for k, v in packed.items()} if single else packed

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "add_start_token": self.add_start_token,
            "add_end_token": self.add_end_token,
        }
