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
        rows: rows of a batch over all processes; `None` if unknown.
        capacity: rows of the memory.

    Raises:
        ValueError: if a batch has fewer rows than the memory.
    """
    if not shares_batches(model):
        return
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


class WorkerStrategy:
    """A `tf.distribute.MultiWorkerMirroredStrategy` as Keras can train by it.

    Keras 3.15 asks such a strategy to reduce a nest of values, and scalars
    along an axis; it can do neither. Here a step hands over what belongs to
    the whole batch: the mean of a scalar, the rows of all replicas in order.
    """

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def run(self, function: Any, args: Any = (), **kwargs: Any) -> Any:
        """A step on every replica; its results for the whole batch."""
        outputs = self._strategy.run(function, args, **kwargs)
        return keras.tree.map_structure(self._of_whole_batch, outputs)

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """The part of one replica: Keras asks to learn the shapes."""
        return keras.tree.map_structure(
            lambda part: self._strategy.experimental_local_results(part)[0],
            value,
        )

    def _of_whole_batch(self, value: Any) -> Any:
        part = self._strategy.experimental_local_results(value)[0]
        if len(part.shape) == 0:
            return self._strategy.reduce("MEAN", value, axis=None)
        return self._strategy.gather(value, axis=0)


def trainable_strategy(strategy: Any) -> Any:
    """The strategy in the form that Keras can train by."""
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return WorkerStrategy(strategy)
    return strategy


def _replica_context() -> Any:
    """Where a replica among several runs; `None` anywhere else."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return context
