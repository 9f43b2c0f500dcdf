"""Documents with a label a token, as segments of parallel streams.

Axes: B rows, S segments, T segment.
"""

from collections.abc import Sequence

import numpy as np

from keras_txl.checks import check_integer


def labelled_segments(
    documents: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    batch_size: int,
    segment_length: int,
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Lay labelled documents out for the `fit` of a model with memory.

    Documents are spread over `batch_size` rows, and a memory never passes
    from one to the next. Sample `k * batch_size + r` is segment k of row r.

    Args:
        documents: list of 1-D arrays of int ids.
        labels: list of arrays, a label for each id.
        batch_size: int B, the streams that the model holds.
        segment_length: int T, in tokens.

    Returns:
        `token_ids` and `document_ids` (int32, -1 on padding), the labels (0 on
        padding) and their weights (float32, 0 on padding), each of shape
        `(S * B, T)`.

    Raises:
        ValueError: if a document has not one label for each id.

    Example:

    >>> inputs, labels, weights = labelled_segments(
    ...     [np.array([5, 6, 7]), np.array([8])],
    ...     [np.array([1, 0, 1]), np.array([1])],
    ...     batch_size=2,
    ...     segment_length=2,
    ... )
    >>> inputs["token_ids"].tolist()
    [[5, 6], [8, 0], [7, 0], [0, 0]]
    >>> labels.tolist()
    [[1, 0], [1, 0], [1, 0], [0, 0]]
    """
    check_integer("batch_size", batch_size, 1)
    check_integer("segment_length", segment_length, 1)
    sizes = [len(document) for document in documents]
    if sizes != [len(own) for own in labels]:
        raise ValueError(
            "Each document must have a label for each of its ids. Received: "
            f"documents of {sizes[:5]} ids, {[len(own) for own in labels][:5]} "
            "labels."
        )
    filled = np.zeros(batch_size, "int64")
    places = []
    for number in np.argsort(sizes, kind="stable")[::-1]:
        row = int(filled.argmin())
        end = filled[row] + sizes[number]
        places.append((number, row, slice(filled[row], end)))
        filled[row] = end
    segments = max(1, -(-int(filled.max()) // segment_length))
    shape = (batch_size, segments * segment_length)
    token_ids, targets = np.zeros(shape, "int32"), np.zeros(shape, "int32")
    document_ids = np.full(shape, -1, "int32")
    for number, row, place in places:
        token_ids[row, place] = documents[number]
        targets[row, place] = labels[number]
        document_ids[row, place] = number

    def by_segment(values: np.ndarray) -> np.ndarray:
        values = values.reshape(batch_size, segments, segment_length)
        return values.swapaxes(0, 1).reshape(-1, segment_length)

    inputs = {
        "token_ids": by_segment(token_ids),
        "document_ids": by_segment(document_ids),
    }
    weights = (inputs["document_ids"] >= 0).astype("float32")
    return inputs, by_segment(targets), weights
