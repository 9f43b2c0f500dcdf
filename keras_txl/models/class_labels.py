"""Labels that do not fit the head of a classifier, found before training.

Keras finds them late or never: by its backend, a class that is too large is an
error of a kernel, an infinite loss or that of another class.

Axes: B rows, C classes.
"""

from typing import Any

import keras
import numpy as np

SPARSE = "sparse_categorical_crossentropy"


def check_labels(
    labels: Any, num_classes: int, loss: Any, axes: int = 1
) -> None:
    """Raise `ValueError` unless labels fit the outputs and the loss.

    Args:
        labels: array of shape `(B, ...)`; anything that is none passes, such
            as `None` or a dataset.
        num_classes: int C.
        loss: as of `compile`; a function of one's own may want any labels.
        axes: int. Axes of the labels of the sparse loss: 1 for texts, 2 for
            tokens.
    """
    if not isinstance(labels, (np.ndarray, list, tuple)):
        return
    labels = np.asarray(labels)
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        labels = labels[labels != ignored]
    if labels.dtype.kind not in "biuf" or not labels.size:
        return
    if _is_sparse(loss):
        _check_classes(labels, num_classes)
    elif isinstance(loss, (str, keras.losses.Loss)) and num_classes > 1:
        _check_columns(labels, num_classes, axes)


def _check_classes(labels: np.ndarray, num_classes: int) -> None:
    low, high = labels.min(), labels.max()
    if low < 0 or high >= num_classes or (labels != np.floor(labels)).any():
        raise ValueError(
            "`labels` must be the numbers of classes, 0 to "
            f"{num_classes - 1} with num_classes={num_classes}. Received: "
            f"labels from {low} to {high}, of type {labels.dtype}. Number "
            "the classes from 0, build the model with more of them, or "
            "compile it with the loss that other labels need."
        )


def _check_columns(labels: np.ndarray, num_classes: int, axes: int) -> None:
    if labels.ndim != axes + 1 or labels.shape[-1] != num_classes:
        raise ValueError(
            "`labels` must be rows of `num_classes` numbers with this loss. "
            f"Received: labels.shape={labels.shape}, num_classes="
            f"{num_classes}. Pass one column a class, or compile the model "
            "with a sparse categorical loss."
        )


def _is_sparse(loss: Any) -> bool:
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    name = name or getattr(loss, "__name__", None)
    return name == SPARSE or isinstance(
        loss, keras.losses.SparseCategoricalCrossentropy
    )
