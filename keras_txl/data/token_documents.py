"""Documents as arrays of token ids: checks and joining."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_txl.data.document_layout import read_pairs

INT32_MAX = 2**31 - 1


def as_arrays(documents: Any) -> list[np.ndarray]:
    """Return one document or several as 1-D integer arrays.

    Args:
        documents: a 1-D array or flat list of token ids, or a sequence of
            such.

    Returns:
        One array a document, in its own integer type, not copied.

    Raises:
        TypeError: if there is text, or numbers that are no integers.
        ValueError: if an array is not 1-D or an id lies outside
            `[0, 2**31)`.
    """
    if isinstance(documents, (str, bytes, bytearray, dict)) or not isinstance(
        documents, Iterable
    ):
        raise TypeError(
            "`documents` must be a 1-D array of token ids or a sequence of "
            f"such arrays. Received: type {type(documents).__name__}. Turn "
            "text into ids with a tokenizer, bytes with "
            "`np.frombuffer(data, np.uint8)`."
        )
    if not hasattr(documents, "__array__"):
        documents = list(documents)
        # A flat list of numbers is one document.
        one_document = bool(documents) and np.ndim(documents[0]) == 0
    else:
        one_document = True
    if one_document:
        documents = [documents]
    return [_as_array(i, document) for i, document in enumerate(documents)]


def _as_array(number: int, document: Any) -> np.ndarray:
    array = np.asarray(document)
    if array.ndim != 1:
        raise ValueError(
            "`documents` must be a 1-D array of token ids or a sequence of "
            f"such arrays. Received: document {number} of shape "
            f"{array.shape}. Pass `list(array)` to make every row a document, "
            "or `array.reshape(-1)` to join the rows."
        )
    if not array.size:
        return array.astype("uint8")
    if array.dtype.kind not in "iu":
        raise TypeError(
            "`documents` must hold integer token ids. Received: document "
            f"{number} of dtype {array.dtype}. Turn text into ids with a "
            "tokenizer; cast whole numbers with `.astype('int32')`."
        )
    smallest, largest = int(array.min()), int(array.max())
    if smallest < 0 or largest > INT32_MAX:
        raise ValueError(
            "`documents` must hold token ids from 0 to 2147483647. Received: "
            f"document {number} with ids from {smallest} to {largest}. Leave "
            "out padding; give each text as a document of its own."
        )
    return array


def join_arrays(arrays: list[np.ndarray]) -> np.ndarray:
    """Lay documents end to end in the smallest type they came in.

    Args:
        arrays: results of `as_arrays`, at least one.

    Returns:
        1-D integer array; a single document is not copied.
    """
    if len(arrays) == 1:
        return arrays[0]
    dtype = np.result_type(*{array.dtype for array in arrays})
    # All ids fit int32; mixed 64-bit types would even become float.
    if dtype.itemsize > 4:
        dtype = np.dtype("int32")
    return np.concatenate(arrays, dtype=dtype, casting="unsafe")


class ArrayTokens:
    """Documents in memory, as a stream reads them.

    Args:
        ids: 1-D integer array, the documents end to end.
        lengths: int64 array, tokens of each document.
    """

    def __init__(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        self.ids = ids
        self.lengths = lengths

    @property
    def largest_id(self) -> int:
        """The largest id."""
        return int(self.ids.max())

    def read(
        self, starts: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of pieces, and those behind them; see `read_pairs`."""
        return read_pairs(self.ids, starts, lengths)


def as_token_source(documents: Any) -> Any:
    """What a stream reads: has what `ArrayTokens` has.

    Args:
        documents: a token file, or as for `as_arrays`.
    """
    if hasattr(documents, "read") and hasattr(documents, "lengths"):
        return documents
    arrays = as_arrays(documents)
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    if not arrays:
        return ArrayTokens(np.zeros(0, "uint8"), lengths)
    return ArrayTokens(join_arrays(arrays), lengths)
