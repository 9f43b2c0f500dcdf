"""Where the rows of a memory bank live when several devices share a batch.

Of a batch of B rows on R replicas, row r belongs to replica r // (B / R), and
so does row r of every bank. A strategy of TensorFlow keeps a variable of
B / R rows on each replica; JAX keeps one array, sharded on its first axis.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor


def num_replicas() -> int:
    """Replicas that share the rows of a batch: 1 without a distribution."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return int(tf.distribute.get_strategy().num_replicas_in_sync)
    distribution = _jax_distribution()
    return 1 if distribution is None else int(distribution.num_model_replicas)


def variable_rows(batch_size: int) -> int:
    """Rows of the variable that holds a bank of `batch_size` rows.

    Raises:
        ValueError: if the replicas cannot share the rows evenly.
    """
    replicas = num_replicas()
    if batch_size % replicas:
        raise ValueError(
            "`batch_size` must be divisible by the number of replicas, which "
            f"share the rows of every batch. Received: batch_size={batch_size}"
            f", {replicas} replicas. Use batch_size="
            f"{-(-batch_size // replicas) * replicas}, or fewer devices."
        )
    if keras.backend.backend() == "tensorflow":
        return batch_size // replicas
    return batch_size


def bank_layout(shape: tuple[int | None, ...]) -> Any:
    """Layout of a bank on JAX: as batches have it. `None`: on one device."""
    distribution = _jax_distribution()
    return None if distribution is None else distribution.get_data_layout(shape)


def bank_parts(variable: keras.Variable) -> dict[int, Any]:
    """The variables of a bank in this process, by the number of the replica."""
    strategy = _strategy_of(variable)
    if strategy is None:
        return {0: variable}
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: context.replica_id_in_sync_group
    )
    return dict(
        zip(
            map(int, strategy.experimental_local_results(numbers)),
            strategy.experimental_local_results(variable.value),
            strict=True,
        )
    )


def whole_shape(variable: keras.Variable) -> tuple[int, ...]:
    """Shape of a variable, of a bank with the rows of every replica."""
    strategy = _strategy_of(variable)
    if strategy is None:
        return tuple(variable.shape)
    rows, *rest = variable.shape
    return (rows * strategy.num_replicas_in_sync, *rest)


def read_whole(variable: keras.Variable) -> Tensor:
    """Value of a variable, of a bank with the rows of every replica."""
    strategy = _strategy_of(variable)
    if strategy is None:
        return _on_every_device(ops.convert_to_tensor(variable))
    parts = bank_parts(variable)
    if len(parts) == strategy.num_replicas_in_sync:
        return ops.concatenate([parts[r] for r in sorted(parts)], axis=0)
    values = strategy.experimental_distribute_values_from_function(
        lambda context: ops.convert_to_tensor(
            parts[context.replica_id_in_sync_group]
        )
    )
    return strategy.gather(values, axis=0)


def write_whole(variable: keras.Variable, value: Any) -> None:
    """Assign what `read_whole` gave, here or in each process."""
    if _strategy_of(variable) is None:
        variable.assign(value)
        return
    rows = variable.shape[0]
    for replica, part in bank_parts(variable).items():
        part.assign(value[replica * rows : (replica + 1) * rows])


def check_batch(hidden: Tensor, bank_rows: int, batch_size: int) -> Tensor:
    """Check the rows of a batch, or of the part that a replica has of it.

    Args:
        hidden: float tensor of shape `(rows, ...)`.
        bank_rows: rows of the variable of the bank.
        batch_size: rows of the bank.

    Returns:
        `hidden`, which must be used for the check to take place.

    Raises:
        ValueError: if there are more rows than the bank has, or fewer and
            several devices share the batch.
    """
    replicas = num_replicas()
    if keras.backend.backend() == "tensorflow":
        _check_strategy(replicas, bank_rows, batch_size)
    rows = ops.shape(hidden)[0]
    if replicas > 1:
        text = (
            "Every batch must be full where several devices share it. "
            f"Received: {{rows}} rows for the {bank_rows} rows of memory, "
            f"with batch_size={batch_size} on {replicas} devices. Drop the "
            "last short batch, or feed a `keras_txl.data.SegmentStream`, "
            "whose batches are full."
        )
    else:
        text = (
            "A batch must not have more rows than the memory holds streams. "
            f"Received: batch_size={batch_size} of the memory and a batch of "
            "{rows} rows. Build the model with a larger `batch_size`, pass "
            "smaller batches, or use `call_with_memory`, which takes any."
        )
    if not isinstance(rows, int):
        return _check_rows_in_graph(hidden, bank_rows, replicas > 1, text)
    if rows > bank_rows or (replicas > 1 and rows < bank_rows):
        raise ValueError(text.format(rows=rows))
    return hidden


def _check_rows_in_graph(
    hidden: Tensor, bank_rows: int, full: bool, text: str
) -> Tensor:
    """Rows are unknown while TensorFlow traces: check when the graph runs."""
    import tensorflow as tf

    rows = tf.shape(hidden)[0]
    good = rows == bank_rows if full else rows <= bank_rows
    check = tf.debugging.Assert(good, [text.format(rows="(next number)"), rows])
    with tf.control_dependencies([] if check is None else [check]):
        hidden = tf.identity(hidden)
    return hidden


def _check_strategy(replicas: int, bank_rows: int, batch_size: int) -> None:
    """A replica must find its own bank, and find it where it runs."""
    import tensorflow as tf

    if bank_rows * replicas != batch_size:
        raise ValueError(
            "A model with memory must be built inside the scope of the "
            "strategy that runs it. Received: a bank of "
            f"{batch_size // bank_rows} replicas, run on {replicas}. Build "
            "the model under `with strategy.scope():`, and run it by `fit`, "
            "`evaluate`, `predict` or `strategy.run`."
        )
    # Keras traces a graph outside of the replicas to learn shapes.
    outside = (
        tf.distribute.in_cross_replica_context() and tf.executing_eagerly()
    )
    if replicas > 1 and outside:
        raise ValueError(
            "A model with memory must be called on a replica, whose rows of "
            "memory it uses. Received: a call outside of `strategy.run`. Use "
            "`fit`, `evaluate`, `predict`, `strategy.run`, or "
            "`call_with_memory`, which has no such rows."
        )


def _strategy_of(variable: keras.Variable) -> Any:
    """The TensorFlow strategy whose replicas have rows of their own in it."""
    if (
        keras.backend.backend() != "tensorflow"
        or variable.aggregation != "only_first_replica"
        or variable.synchronization != "on_read"
    ):
        return None
    return getattr(variable.value, "distribute_strategy", None)


def _on_every_device(value: Tensor) -> Tensor:
    """A value, on JAX whole on each device and in each process."""
    distribution = _jax_distribution()
    if distribution is None:
        return value
    whole = keras.distribution.TensorLayout(
        (None,) * len(value.shape), distribution.device_mesh
    )
    return keras.distribution.distribute_tensor(value, whole)


def _jax_distribution() -> Any:
    if keras.backend.backend() != "jax":
        return None
    return keras.distribution.distribution()
