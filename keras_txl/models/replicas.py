"""Training on several replicas that share a batch (strategies of TensorFlow).

Each replica sees its own rows. What is a mean over the batch, or a norm of its
gradient, must nevertheless be one of the whole batch.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import keras

from keras_txl.aliases import Tensor
from keras_txl.layers.bank_placement import num_replicas
from keras_txl.models.training_data import is_array_data


def sum_over_replicas(value: Tensor) -> Tensor:
    """The sum of what each replica computed; `value` without replicas."""
    context = _replica_context()
    return value if context is None else context.all_reduce("SUM", value)


def share_of_replica(value: Tensor) -> Tensor:
    """The part of a value that sums up to it over all replicas."""
    context = _replica_context()
    return value if context is None else value / context.num_replicas_in_sync


def clip_whole_gradient(optimizer: Any) -> None:
    """Make an optimizer clip the gradient of the batch, not of each replica.

    Under a strategy Keras clips what each replica contributes and adds up
    afterwards. Here the sum comes first; replica 0 then stands for all.

    Args:
        optimizer: a Keras optimizer, or `None`.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    limits = ("clipnorm", "global_clipnorm", "clipvalue")
    if all(getattr(optimizer, name, None) is None for name in limits):
        return
    apply = optimizer.apply

    def apply_sum(
        grads: Sequence[Any], trainable_variables: Any = None
    ) -> None:
        context = _replica_context()
        if context is not None:
            grads = [
                None if grad is None else _sum_on_first_replica(context, grad)
                for grad in grads
            ]
        apply(grads, trainable_variables)

    optimizer.apply = apply_sum


def _sum_on_first_replica(context: Any, grad: Any) -> Tensor:
    import tensorflow as tf

    total = context.all_reduce("SUM", tf.convert_to_tensor(grad))
    is_first = tf.equal(context.replica_id_in_sync_group, 0)
    return tf.where(is_first, total, tf.zeros_like(total))


@contextmanager
def scope_of(model: Any) -> Iterator[None]:
    """The scope of the strategy that a model was built for."""
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        yield
        return
    with strategy.scope():
        yield


def check_full_batches(
    model: Any, x: Any, batch_size: int | None, capacity: int
) -> None:
    """Refuse arrays whose batches would not be full on several devices.

    Raises:
        ValueError: if a batch would have fewer rows than the memory.
    """
    with scope_of(model):
        replicas = num_replicas()
    if replicas == 1 or not is_array_data(x):
        return
    rows = keras.tree.flatten(x)[0].shape[0]
    batch_size = batch_size or capacity
    if batch_size != capacity or rows % capacity:
        raise ValueError(
            "Every batch must be full where several devices share it. "
            f"Received: {rows} rows of data in batches of {batch_size}, for "
            f"a memory with batch_size={capacity} on {replicas} devices. Use "
            f"{rows // capacity * capacity} rows in batches of {capacity}, or "
            "feed a `keras_txl.data.SegmentStream`."
        )


def _replica_context() -> Any:
    """Where a replica among several runs; `None` anywhere else."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return context
