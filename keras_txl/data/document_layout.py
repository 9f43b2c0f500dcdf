"""Where the pairs (input, target) of documents stand in an array of tokens.

The documents are laid end to end in some order; a document of n tokens gives
n - 1 pairs. Everything is computed for whole segments, with no Python work for
a token, and nothing here is as large as the text.
"""

import numpy as np


class DocumentLayout:
    """Documents laid end to end in an order.

    Args:
        starts: int64 array, where each document begins in the tokens.
        lengths: int64 array, tokens of each document, at least 2.
        numbers: int64 array, the number that each document is known by.
    """

    def __init__(
        self, starts: np.ndarray, lengths: np.ndarray, numbers: np.ndarray
    ) -> None:
        self._pair_ends = np.cumsum(lengths - 1)
        # Pair p of document k starts at token p + shift[k].
        self._shifts = starts - (self._pair_ends - (lengths - 1))
        self._numbers = numbers

    def find(
        self, begins: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The documents in ranges of pairs, as pieces in one document each.

        Args:
            begins: int64 array, first pair of each range.
            ends: int64 array, the pair behind each range; empty ranges are
                left out.

        Returns:
            For each piece, range by range: the token at which it begins, its
            number of pairs, the number of its document, and the range.
        """
        first = np.searchsorted(self._pair_ends, begins, side="right")
        last = np.searchsorted(self._pair_ends, ends - 1, side="right")
        counts = np.where(ends > begins, last - first + 1, 0)
        owner = np.repeat(np.arange(len(counts)), counts)
        before = np.cumsum(counts) - counts
        kept = np.arange(counts.sum()) - before[owner] + first[owner]
        stop = np.minimum(self._pair_ends[kept], ends[owner])
        begin = begins[owner].copy()
        inner = np.flatnonzero(kept > first[owner])  # began within the range
        begin[inner] = self._pair_ends[kept[inner] - 1]
        token = begin + self._shifts[kept]
        return token, stop - begin, self._numbers[kept], owner


LONG_PIECE = 256
"""Average tokens of pieces from which it pays to copy each by itself."""


def read_pairs(
    ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of pieces end to end, and those that follow each of them.

    Args:
        ids: 1-D integer array.
        starts: int64 array, where each piece begins in it.
        lengths: int64 array, pairs of each piece, at least 1.

    Returns:
        Two arrays of `lengths.sum()` ids.
    """
    if len(lengths) and lengths.sum() >= LONG_PIECE * len(lengths):
        borders = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        pieces = [ids[start : stop + 1] for start, stop in borders]
        return (
            np.concatenate([piece[:-1] for piece in pieces]),
            np.concatenate([piece[1:] for piece in pieces]),
        )
    places = count_up(starts, lengths)
    return ids[places], ids[places + 1]


def count_up(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Consecutive integers from each start, laid end to end.

    Args:
        starts: int64 array.
        lengths: int64 array of the same shape, at least 1.

    Returns:
        int64 array of `lengths.sum()` entries.
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())
