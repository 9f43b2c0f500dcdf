"""Batches of texts of like length.

Axes: B rows, N tokens.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_txl.checks import check_integer


class TextBatches(keras.utils.PyDataset):
    """Texts with labels, a text a row, in batches of like length.

    Each batch is `(inputs, labels)`, or `(inputs, labels, sample_weight)`,
    or `(inputs,)`; inputs are `token_ids` (int32) and `padding_mask` (bool)
    of shape `(B, N)`. Texts are sorted by length, so that little of a batch
    is padding, and N is a power of two up to `segment_length` and that
    times a power of two beyond: few shapes are compiled.

    Args:
        texts: list of 1-D arrays of int ids.
        labels: array of shape `(len(texts), ...)`, or `None`.
        sample_weight: array of shape `(len(texts),)`, or `None`.
        batch_size: int. Rows of a batch; the last one may have fewer.
        segment_length: int. Tokens that the model reads at once.
        shuffle: bool. Whether each pass has the batches in another order,
            and in them other texts of like length.
        seed: int. Of the shuffling.

    Raises:
        ValueError: if there is no text, or not one label for each.

    Example:

    >>> texts = [np.array([5, 6, 7]), np.array([8]), np.array([9, 9])]
    >>> batches = TextBatches(texts, labels=[0, 1, 0], batch_size=2)
    >>> for inputs, labels in batches:
    ...     print(inputs["token_ids"].tolist(), labels)
    [[8, 0], [9, 9]] [1 0]
    [[5, 6, 7, 0]] [0]
    """

    def __init__(
        self,
        texts: Sequence[np.ndarray],
        labels: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: int = 32,
        segment_length: int = 512,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.texts = [np.asarray(text, "int32") for text in texts]
        self.labels = None if labels is None else np.asarray(labels)
        self.sample_weight = (
            None if sample_weight is None else np.asarray(sample_weight)
        )
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.segment_length = check_integer("segment_length", segment_length, 1)
        self.shuffle = bool(shuffle)
        self.random = np.random.default_rng(seed)
        if self.labels is None and self.sample_weight is not None:
            raise ValueError(
                "`sample_weight` weighs labels. Received: weights without "
                "`labels`. Pass both, or leave the weights out."
            )
        if self.labels is not None and self.labels.dtype.kind in "USO":
            raise ValueError(
                "`labels` must be numbers. Received: labels of type "
                f"{self.labels.dtype}. Number the classes from 0."
            )
        for name in ("labels", "sample_weight"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.texts):
                raise ValueError(
                    f"`{name}` must have one entry for each text. Received: "
                    f"{len(values)} for {len(self.texts)} texts."
                )
        if not self.texts:
            raise ValueError(
                "`texts` must hold at least one text. Received: none."
            )
        self.widths = np.array([self._width(len(text)) for text in self.texts])
        self._draw_order()

    def __len__(self) -> int:
        return -(-len(self.texts) // self.batch_size)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        chosen = self.order[self._rows(index)]
        shape = (len(chosen), int(self.widths[chosen].max()))
        token_ids = np.zeros(shape, "int32")
        padding_mask = np.zeros(shape, bool)
        for row, text in enumerate(chosen):
            length = len(self.texts[text])
            token_ids[row, :length] = self.texts[text]
            padding_mask[row, :length] = True
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        batch: list[Any] = [inputs]
        for values in (self.labels, self.sample_weight):
            if values is not None:
                batch.append(values[chosen])
        return tuple(batch)

    def on_epoch_end(self) -> None:
        if self.shuffle:
            self._draw_order()

    def in_given_order(self, rows: np.ndarray) -> np.ndarray:
        """Put what was computed for each row of the batches, end to end, in
        the order of the texts."""
        places = [self.order[self._rows(index)] for index in range(len(self))]
        result = np.empty_like(rows)
        result[np.concatenate(places)] = rows
        return result

    def _rows(self, index: int) -> slice:
        begin = int(self.begins[index])
        return slice(begin, min(begin + self.batch_size, len(self.texts)))

    def _draw_order(self) -> None:
        """`order`, the texts row by row, and `begins`, where batches begin."""
        begins = np.arange(len(self)) * self.batch_size
        if self.shuffle:
            order = self.random.permutation(len(self.texts))
            order = order[np.argsort(self.widths[order], kind="stable")]
        else:
            sizes = [len(text) for text in self.texts]
            order = np.argsort(sizes, kind="stable")
        # The narrowest batch comes first and the widest second: on TensorFlow
        # Keras takes what these two have in common for the shape of all.
        first, rest = begins[[0, -1][: len(self)]], begins[1:-1]
        if self.shuffle:
            rest = self.random.permutation(rest)
        self.order, self.begins = order, np.concatenate([first, rest])

    def _width(self, length: int) -> int:
        """Tokens of a row that holds a text of `length` tokens."""
        if length <= self.segment_length:
            return min(_power_of_two(length), self.segment_length)
        segments = -(-length // self.segment_length)
        return self.segment_length * _power_of_two(segments)


def _power_of_two(size: int) -> int:
    """The smallest power of two that is not below `size`; at least 1."""
    return 1 << max(size - 1, 0).bit_length()
