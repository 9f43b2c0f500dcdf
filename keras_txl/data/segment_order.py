"""Where segments and streams of a pass begin, and its order of documents.

Random lengths are those of the released code's `--varlen`, random starts those
of NVIDIA's `--roll`. Both are functions of a seed and the number of the pass,
so a pass can be entered anywhere.
"""

import numpy as np

HALF_SEGMENTS = 0.05
"""Share of segments that are drawn around half of the usual length."""

DEVIATION = 5.0
"""Standard deviation of lengths in tokens; less for segments below 40."""

SHORTEST = 5
"""Shortest segment in tokens; less for segments below 20."""

LONGEST_DEVIATIONS = 3
"""The longest segment is so many deviations above the usual length."""


def draw_segment_lengths(
    row_length: int, segment_length: int, rng: np.random.Generator
) -> np.ndarray:
    """Lengths of segments that add up to a row.

    Args:
        row_length: tokens of the row, at least 1.
        segment_length: longest segment T, in tokens.
        rng: source of the draws.

    Returns:
        int64 array, each entry in [1, T]. The last one is what is left of the
        row.
    """
    deviation = min(DEVIATION, segment_length / 8)
    shortest = max(1, min(SHORTEST, segment_length // 4))
    usual = segment_length - LONGEST_DEVIATIONS * deviation
    drawn: list[int] = []
    left = row_length
    while left > 0:
        center = usual if rng.random() >= HALF_SEGMENTS else usual / 2
        length = int(rng.normal(center, deviation))
        length = min(max(length, shortest), segment_length, left)
        drawn.append(length)
        left -= length
    return np.array(drawn, dtype=np.int64)


def segment_borders(
    lengths: np.ndarray, seed: int, pass_number: int
) -> np.ndarray:
    """Borders of the segments of a pass: its lengths in an order of its own.

    All passes have the same lengths, so that they have as many segments.

    Args:
        lengths: lengths of the segments.
        seed: seed of the stream.
        pass_number: which pass.

    Returns:
        int64 array: segment i goes from entry i up to entry i + 1.
    """
    rng = np.random.default_rng((seed, 1, pass_number))
    return np.concatenate([[0], np.cumsum(rng.permutation(lengths))])


def row_starts(
    row_lengths: np.ndarray, seed: int, pass_number: int
) -> np.ndarray:
    """Where each row begins in a pass; it goes on at its front at its end.

    Args:
        row_lengths: int array of shape `(B,)`.
        seed: seed of the stream.
        pass_number: which pass.

    Returns:
        int64 array of shape `(B,)`, entry r in [0, length of row r); 0 for an
        empty row.
    """
    rng = np.random.default_rng((seed, 2, pass_number))
    return rng.integers(0, np.maximum(row_lengths, 1))


def document_order(
    num_documents: int, seed: int, pass_number: int
) -> np.ndarray:
    """The order in which documents are laid end to end in a pass.

    Args:
        num_documents: number of documents.
        seed: seed of the stream.
        pass_number: which pass.

    Returns:
        int64 array, a permutation.
    """
    rng = np.random.default_rng((seed, 3, pass_number))
    return rng.permutation(num_documents)
