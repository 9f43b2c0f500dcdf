"""Data sets that no setting can read out of order."""

from threading import Lock
from typing import Any

import keras


class OwnLock:
    """A lock that another process gets a new one for."""

    def __init__(self) -> None:
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: Any) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return OwnLock, ()


class OrderedDataset(keras.utils.PyDataset):
    """A `PyDataset` that no setting can read out of order.

    With several workers Keras loses or moves the first batch on some
    backends, and memory would silently meet the wrong text.
    """

    @property
    def workers(self) -> int:
        return 1

    @workers.setter
    def workers(self, value: int) -> None:
        if value > 1:
            raise ValueError(
                "`workers` must be at most 1, since more would deliver "
                f"segments out of order. Received: workers={value}. Use "
                "`to_tf_dataset()` to prepare batches in the background."
            )

    @property
    def use_multiprocessing(self) -> bool:
        return False

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        if value:
            raise ValueError(
                "`use_multiprocessing` must be False, since processes would "
                "deliver segments out of order. Received: "
                f"use_multiprocessing={value}. Use `to_tf_dataset()` to "
                "prepare batches in the background."
            )
