"""What a stateful model must know of the data that Keras will read.

Axes: B rows.
"""

from collections.abc import Iterator
from threading import Lock
from types import GeneratorType
from typing import Any

import keras

from keras_txl.models.token_inputs import check_document_ids


def is_array_data(x: Any) -> bool:
    """Whether data are arrays or tensors, which Keras cuts into batches."""
    leaves = keras.tree.flatten(x)
    return bool(leaves) and all(
        hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves
    )


def rows_of_first_batch(
    x: Any, open_datasets: bool = False
) -> tuple[Any, int | None]:
    """Rows of a batch, and the data as they were.

    Args:
        x: what `fit`, `evaluate` or `predict` is given.
        open_datasets: bool. Whether to read the first batch of a
            `tf.data.Dataset` that does not tell its rows.

    Returns:
        Data to read in place of `x` (a generator cannot be looked into
        without taking its first batch), and the rows of the first batch;
        `None` for arrays, which have no batches yet, and where it is unknown.

    Raises:
        ValueError: if `check_documents` refuses arrays or the first batch.
    """
    check_documents(x)
    if isinstance(x, keras.utils.PyDataset):
        return x, _rows(x[0])
    if hasattr(x, "element_spec"):  # a tf.data.Dataset
        shape = keras.tree.flatten(x.element_spec)[0].shape
        if shape.rank and shape[0] is not None:
            return x, int(shape[0])
        if not open_datasets:
            return x, None
        return x, next((_rows(batch) for batch in x.take(1)), None)
    if isinstance(x, GeneratorType):
        for first in x:
            return _put_back(first, x), _rows(first)
    return x, None


def check_documents(data: Any) -> None:
    """`check_document_ids` of arrays, or of a batch `(inputs, ...)`."""
    inputs = data[0] if isinstance(data, tuple) and data else data
    if isinstance(inputs, dict):
        check_document_ids(inputs.get("document_ids"))


def _rows(batch: Any) -> int | None:
    check_documents(batch)
    shape: Any = getattr(keras.tree.flatten(batch)[0], "shape", ())
    return int(shape[0]) if len(shape) else None


def _put_back(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def batches_per_pass(x: Any, batch_size: int | None) -> int | None:
    """Batches of one pass over the data, where it can be known."""
    if isinstance(x, keras.utils.PyDataset):
        return x.num_batches
    if is_array_data(x) and batch_size:
        return -(-keras.tree.flatten(x)[0].shape[0] // batch_size)
    try:
        length = len(x)
    except (TypeError, AttributeError):
        return None
    return int(length)


def steady_validation_data(data: Any, steps: int | None) -> Any:
    """Validation data from which each validation reads on where it should."""
    if isinstance(data, GeneratorType) and steps:
        return GeneratorPasses(data, steps)
    return data


class GeneratorPasses(keras.utils.PyDataset):
    """A generator as validation data, `num_batches` for each validation.

    Keras opens a new iterator for each validation, in which the first batches
    of a generator come again and those after them have moved on: memory would
    meet text that does not follow. Here a batch that is asked for again is
    given again until the pass is complete.

    Args:
        generator: yields batches.
        num_batches: int. Batches of one pass.
    """

    def __init__(self, generator: Iterator[Any], num_batches: int) -> None:
        super().__init__()
        self._generator = generator
        self._num_batches = num_batches
        self._batches: list[Any] = []  # of the present pass
        self._lock = Lock()

    def __len__(self) -> int:
        return self._num_batches

    def __getitem__(self, index: int) -> Any:
        with self._lock:
            if index == 0 and len(self._batches) == self._num_batches:
                self._batches = []
            while len(self._batches) <= index:
                self._batches.append(self._next_batch())
            return self._batches[index]

    def _next_batch(self) -> Any:
        for batch in self._generator:
            return batch
        raise ValueError(
            "`validation_data` ran out: a generator must yield "
            "`validation_steps` batches for every validation. Received: "
            f"{len(self._batches)} of {self._num_batches} batches. Yield for "
            "ever, or pass a `keras_txl.data.SegmentStream`."
        )
