"""All documents of an evaluation, laid end to end.

A document of n tokens gives n - 1 pairs (input, target); a place is the number
of a pair in that line.
"""

from typing import Any

import numpy as np

from keras_txl.data.document_layout import DocumentLayout
from keras_txl.data.token_documents import as_token_source


class DocumentLine:
    """The pairs of documents, in the given order.

    Args:
        documents: as in `SegmentStream`.

    Attributes:
        num_documents: number of documents.
        num_targets: number of pairs.
        pair_ends: int64 array, where each document that has a pair ends.

    Raises:
        ValueError: if no document has two tokens.
    """

    def __init__(self, documents: Any) -> None:
        self._source = as_token_source(documents)
        lengths = self._source.lengths
        self.num_documents = len(lengths)
        numbers = np.flatnonzero(lengths >= 2)
        if not len(numbers):
            raise ValueError(
                "`documents` must hold at least one document of two tokens: "
                "the first is given, the second is predicted. Received: "
                f"{self.num_documents} documents, none of which has. Pass a "
                "longer text."
            )
        starts = (np.cumsum(lengths) - lengths)[numbers]
        self._layout = DocumentLayout(starts, lengths[numbers], numbers)
        self.pair_ends = np.cumsum(lengths[numbers] - 1)
        self.num_targets = int(self.pair_ends[-1])

    def read(
        self, begins: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs of ranges, one range after the other.

        Args:
            begins: int64 array, first place of each range.
            ends: int64 array, place behind each range.

        Returns:
            Input token, target and number of the document of each pair.
        """
        tokens, sizes, numbers, _ = self._layout.find(begins, ends)
        ids, targets = self._source.read(tokens, sizes)
        return ids, targets, np.repeat(numbers, sizes)
