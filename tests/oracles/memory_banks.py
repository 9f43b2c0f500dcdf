"""Memory banks as arrays, and batches of rows that may be too many."""

from typing import Any

import keras
import numpy as np

from tests import tolerances
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

IDS = np.random.default_rng(2).integers(0, 17, size=(40, 4)).astype("int32")

X, Y = IDS[:9], IDS[10:19]


def bank_of(lm: Any, bank: str) -> list[np.ndarray]:
    """Copies of states `(L, B, M, D)`, length and document of a bank."""
    banks = [
        [to_numpy(variable).copy() for variable in memory.bank(bank == "train")]
        for memory in lm.segment_memories
    ]
    return [np.stack(values) for values in zip(*banks, strict=True)]


def assert_same_bank(actual: Any, expected: Any, what: str) -> None:
    """Fail unless two results of `bank_of` are equal."""
    for found, wanted in zip(actual, expected, strict=True):
        assert_close(found, wanted, tolerances.EXACT, what)


def fill(lm: Any) -> tuple[Any, Any]:
    """Put something into both banks."""
    lm(IDS[:2])
    lm(IDS[2:4], training=True)
    return bank_of(lm, "eval"), bank_of(lm, "train")


class Batches(keras.utils.PyDataset):
    """Consecutive rows of arrays."""

    def __init__(
        self, *arrays: np.ndarray, rows: int = 3, workers: int = 1
    ) -> None:
        super().__init__(workers=workers)
        self.arrays = arrays
        self.rows = rows

    def __len__(self) -> int:
        return len(self.arrays[0]) // self.rows

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        first = index * self.rows
        return tuple(x[first : first + self.rows] for x in self.arrays)


def as_tf_data(*arrays: np.ndarray, drop_remainder: bool = False) -> Any:
    """Without `drop_remainder` the rows of a batch are unknown."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    return dataset.batch(3, drop_remainder=drop_remainder)
