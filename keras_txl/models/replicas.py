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


def sum_over_replicas(value: Tensor) -> Tensor:
    """The sum of what each replica computed; `value` without replicas."""
    context = _replica_context()
    return value if context is None else context.all_reduce("SUM", value)


def share_of_replica(value: Tensor) -> Tensor:
    """The part of a value that sums up to it over all replicas."""
    context = _replica_context()
    return value if context is None else value / context.num_replicas_in_sync


@contextmanager
def scope_of(model: Any) -> Iterator[None]:
    """The scope of the strategy that a model was built for."""
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        yield
        return
    with strategy.scope():
        yield


def prepare_for_replicas(model: Any) -> None:
    """Make what a model was compiled with fit for several replicas.

    Raises:
        ValueError: for several steps at once, or several for one update,
            which Keras 3.15 cannot run on replicas with any model.
    """
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None or strategy.num_replicas_in_sync == 1:
        return
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    accumulated = getattr(optimizer, "gradient_accumulation_steps", None)
    for name, value in (
        ("steps_per_execution", model.steps_per_execution),
        ("gradient_accumulation_steps", accumulated or 1),
    ):
        if value > 1:
            raise ValueError(
                f"`{name}` must be 1 under a strategy of several replicas: "
                f"Keras fails there. Received: {name}={value}. Leave it out."
            )
    _clip_whole_gradient(optimizer)


def _clip_whole_gradient(optimizer: Any) -> None:
    """Make an optimizer clip the gradient of the batch, not of each replica.

    Under a strategy Keras clips what each replica contributes and adds up
    afterwards. Here the sum comes first; replica 0 then stands for all.
    """
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
