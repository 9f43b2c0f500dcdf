"""Checks before several devices share the batches of a model."""

from typing import Any

import keras

from keras_txl.layers.bank_placement import num_replicas
from keras_txl.models.replicas import scope_of
from keras_txl.models.training_data import is_array_data


def check_scope(model: Any) -> None:
    """Refuse to compile where optimizer and metrics would miss the devices.

    Raises:
        ValueError: outside of the scope of the model's strategy.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None or strategy.num_replicas_in_sync == num_replicas():
        return
    raise ValueError(
        "`compile` must be called in the scope of the strategy that the model "
        "was built for, and its optimizer and metrics be made there. "
        "Received: a call outside of it. Build and compile under "
        "`with strategy.scope():`."
    )


def check_processes() -> None:
    """Refuse to train alone in one of several processes of PyTorch.

    Raises:
        ValueError: if `torch.distributed` joins several processes.
    """
    if keras.backend.backend() != "torch":
        return
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return
    if distributed.get_world_size() > 1:
        raise ValueError(
            "`fit` trains on one device with PyTorch: Keras does not join "
            "processes there, and each would train a model of its own. "
            f"Received: a group of {distributed.get_world_size()} processes. "
            "Use TensorFlow or JAX for several devices, or leave the process "
            "group out to train several models."
        )


def shares_batches(model: Any) -> bool:
    """Whether several devices share every batch of a model."""
    with scope_of(model):
        return num_replicas() > 1


def rows_over_processes(x: Any, rows: int | None) -> int | None:
    """Rows of the batch that a batch of `rows` rows of `x` is a part of.

    On JAX each process feeds a part, unless Keras shares a dataset out.
    """
    distribution = None
    if keras.backend.backend() == "jax":
        distribution = keras.distribution.distribution()
    if distribution is None or rows is None:
        return rows
    if hasattr(x, "element_spec") and distribution.auto_shard_dataset:
        return rows
    return rows * int(distribution.num_processes)


def check_batches(
    model: Any, x: Any, batch_size: int | None, rows: int | None, capacity: int
) -> None:
    """Refuse data whose batches several devices cannot share.

    Args:
        model: the model that reads them.
        x: as for `fit`.
        batch_size: as for `fit`.
        rows: rows of a batch of `x`; `None` if unknown.
        capacity: rows of the memory.

    Raises:
        ValueError: if a batch has fewer rows than the memory.
    """
    if not shares_batches(model):
        return
    rows = rows_over_processes(x, rows)
    if rows is not None and rows != capacity:
        raise ValueError(
            "Every batch must be full where several devices share it. "
            f"Received: batches of {rows} rows over all processes, for a "
            f"memory with batch_size={capacity}. Use batches of {capacity} "
            "rows. With several processes give each the same "
            "`tf.data.Dataset` of whole batches, such as "
            "`SegmentStream(...).to_tf_dataset()`, and it takes its rows."
        )
    if is_array_data(x) and batch_size:
        samples = keras.tree.flatten(x)[0].shape[0]
        if samples % batch_size:
            raise ValueError(
                "Every batch must be full where several devices share it. "
                f"Received: {samples} rows of data in batches of {batch_size}."
                f" Use {samples // batch_size * batch_size} rows, or in "
                "`evaluate` and `predict` another `batch_size`."
            )
