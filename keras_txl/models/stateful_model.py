"""Keras models that carry memory through `fit`, `evaluate` and `predict`.

Training and evaluation keep apart (each has its bank in `SegmentMemory`),
data keeps its order, and memory restarts when the data does.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from types import GeneratorType
from typing import Any

import keras

from keras_txl.layers.memory_bank import check_bank
from keras_txl.layers.segment_memory import SegmentMemory
from keras_txl.models.compile_config import CompiledAgainMixin
from keras_txl.models.kept_variables import kept_variables
from keras_txl.models.kept_variables import synchronize
from keras_txl.models.normalized_inputs import NormalizedInputsMixin
from keras_txl.models.quantization import QuantizationMixin
from keras_txl.models.replicas import prepare_for_replicas
from keras_txl.models.replicas import scope_of
from keras_txl.models.replicas import trainable_strategy
from keras_txl.models.reset_at_restart import ResetAtRestart
from keras_txl.models.running_metrics import keeps_running_metrics
from keras_txl.models.running_metrics import marks_training
from keras_txl.models.shared_batches import check_batches
from keras_txl.models.shared_batches import check_processes
from keras_txl.models.shared_batches import check_scope
from keras_txl.models.shared_batches import rows_over_processes
from keras_txl.models.shared_batches import shares_batches
from keras_txl.models.start_at_step import as_list
from keras_txl.models.start_at_step import fit_from_step
from keras_txl.models.start_at_step import start_among
from keras_txl.models.token_inputs import FEATURES
from keras_txl.models.token_inputs import TOKEN_IDS
from keras_txl.models.token_inputs import normalize_inputs
from keras_txl.models.training_data import batches_per_pass
from keras_txl.models.training_data import check_documents
from keras_txl.models.training_data import is_array_data
from keras_txl.models.training_data import rows_of_first_batch
from keras_txl.models.training_data import steady_validation_data


class StatefulModelMixin(
    NormalizedInputsMixin, QuantizationMixin, CompiledAgainMixin
):
    """What a functional model with `SegmentMemory` layers needs.

    It stands before the `keras.Model` class among the bases. The model trains
    with plain `fit`: the training bank is reset when `fit` begins and whenever
    its data restarts; `evaluate` and `predict` start from a clean evaluation
    bank and leave the training bank alone.
    """

    layers: list[Any]
    variables: list[Any]

    @property
    def distribute_strategy(self) -> Any:
        """The strategy of TensorFlow that the model was built for."""
        base: Any = super()
        return trainable_strategy(base.distribute_strategy)

    @property
    def segment_memories(self) -> list[SegmentMemory]:
        """The memory layers of the graph, nested models included."""
        return list(memories_of(self))

    @property
    def memory_batch_size(self) -> int | None:
        """Streams that the banks hold. `None`: nothing is carried."""
        sizes = {memory.batch_size for memory in self.segment_memories}
        return min((size for size in sizes if size is not None), default=None)

    def reset_memory(
        self, bank: str = "all", rows: Sequence[int] | None = None
    ) -> None:
        """Forget: streams start anew.

        Args:
            bank: `"train"`, `"eval"` or `"all"`.
            rows: indices of the streams to reset. `None`: all.

        Raises:
            ValueError: for an unknown bank or a row out of range.
        """
        check_bank(bank)
        synchronize(self)
        for memory in self.segment_memories:
            memory.reset_state(bank, rows)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        # Twins have losses and metrics from the last call of `compile`.
        self.__dict__.pop("_evaluation_twins", None)
        check_scope(self)
        base: Any = super()
        base.compile(*args, **kwargs)
        prepare_for_replicas(self)

    @marks_training
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        reset_memory: bool = True,
        **kwargs: Any,
    ) -> Any:
        """`keras.Model.fit` for streams.

        Args:
            x: as for `keras.Model.fit`: arrays (sample `k * batch_size + r`
                is segment k of stream r), a `keras.utils.PyDataset` such as
                `SegmentStream`, a `tf.data.Dataset`, a generator or a
                `torch.utils.data.DataLoader`.
            y: targets, if `x` does not carry them.
            batch_size: rows of a batch of arrays. Defaults to the streams
                that the memory holds.
            epochs: int.
            reset_memory: bool. Whether training begins with an empty memory.
                `False` continues with what the training bank holds.
            **kwargs: all other arguments of `keras.Model.fit`. `shuffle=True`
                is refused.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: if the data would be shuffled or comes from several
                workers, a batch is larger than the memory, or document ids
                are not told apart by int32.
        """
        check_processes()
        check_documents(x)
        kwargs["validation_data"] = steady_validation_data(
            kwargs.get("validation_data"), kwargs.get("validation_steps")
        )
        kwargs.update(y=y, epochs=epochs)
        capacity = self.memory_batch_size
        if capacity is None:
            return self._run_fit(x, batch_size=batch_size, **kwargs)
        if kwargs.get("shuffle"):
            raise ValueError(
                "`shuffle` must be False for a model with memory: row r of a "
                "batch continues row r of the batch before. Received: "
                "shuffle=True. Leave it out, or build the model with "
                "`batch_size=None` to train without memory."
            )
        x, batch_size = self._check_training_data(x, batch_size, capacity)
        validation = kwargs["validation_data"]
        if isinstance(validation, tuple) and is_array_data(validation[0]):
            kwargs.setdefault("validation_batch_size", batch_size or capacity)
        kwargs.update(batch_size=batch_size, shuffle=False)
        callbacks = kwargs.get("callbacks")
        if start_among(callbacks) is not None:
            return self._run_fit(x, reset_memory, **kwargs)
        restarts = ResetAtRestart(
            self,
            reset_memory,
            kwargs.get("steps_per_epoch"),
            batches_per_pass(x, batch_size),
        )
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks.append(restarts)
        else:
            kwargs["callbacks"] = [restarts, *as_list(callbacks)]
        return self._run_fit(x, **kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        """As Keras does, once the optimizer has its variables.

        TensorFlow would trace a whole step to make them in, and then another
        one without.
        """
        optimizer = self.optimizer
        if optimizer is not None and not optimizer.built:
            with scope_of(self):
                optimizer.build(self.trainable_variables)
        base: Any = super()
        return base.make_train_function(force)

    def _run_fit(
        self, x: Any, reset_memory: bool = False, **kwargs: Any
    ) -> Any:
        fit = self._loop("fit", x)
        start = start_among(kwargs.get("callbacks"))
        with kept_variables(self):
            if start is None:
                return fit(x, **kwargs)
            return fit_from_step(
                self, fit, start, x, reset_memory=reset_memory, **kwargs
            )

    @keeps_running_metrics
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """`keras.Model.evaluate`, from a clean evaluation bank.

        A callback may call it while `fit` runs: the training memory and the
        running means of the training metrics stay as they are.

        Args and returns are those of `keras.Model.evaluate`. `batch_size`
        defaults to the streams that the memory holds; a larger batch runs in
        a second graph over the same weights.
        """
        self._check_workers(x)
        rows = batch_size
        # In `fit` Keras reads on where it is: nothing may be taken out.
        if not (
            kwargs.get("_use_cached_eval_dataset")
            and isinstance(x, GeneratorType)
        ):
            x, found = rows_of_first_batch(x, open_datasets=True)
            rows = rows or found
        twin = self._twin(rows_over_processes(x, rows))
        if twin is not None:
            kwargs.pop("_use_cached_eval_dataset", None)
            synchronize(self)
            return twin.evaluate(x, y, batch_size=batch_size, **kwargs)
        batch_size = self._evaluation_rows(x, batch_size, rows)
        with self._clean_evaluation():
            return self._loop("evaluate", x)(
                x, y, batch_size=batch_size, **kwargs
            )

    def predict(
        self, x: Any, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """`keras.Model.predict`, from a clean evaluation bank.

        Args and returns are those of `keras.Model.predict`. `batch_size`
        defaults to the streams that the memory holds; a larger batch runs in
        a second graph over the same weights.
        """
        self._check_workers(x)
        x, rows = rows_of_first_batch(x, open_datasets=True)
        rows = batch_size or rows
        twin = self._twin(rows_over_processes(x, rows))
        if twin is not None:
            synchronize(self)
            return twin.predict(x, batch_size=batch_size, **kwargs)
        batch_size = self._evaluation_rows(x, batch_size, rows)
        with self._clean_evaluation():
            return self._loop("predict", x)(x, batch_size=batch_size, **kwargs)

    def graph_for_batch(self, batch_size: int) -> tuple[Any, Any] | None:
        """Inputs and outputs over the same weights with other banks.

        `None`: the model cannot build one, and refuses larger batches.
        """
        return None

    def _twin(self, rows: int | None) -> Any:
        """A model of larger banks over the same weights, if one is needed."""
        # Made of this very class.
        from keras_txl.models.evaluation_twin import EvaluationTwin

        capacity = self.memory_batch_size
        if capacity is None or rows is None or rows == capacity:
            return None
        if rows < capacity and not shares_batches(self):
            return None
        twins = self.__dict__.setdefault("_evaluation_twins", {})
        if rows not in twins:
            with scope_of(self):
                graph = self.graph_for_batch(rows)
                if graph is None:
                    return None
                twin = EvaluationTwin(self, *graph)
                twin.compile_like_owner()
            # A tuple hides the twin from Keras, which would save it.
            twins[rows] = (twin,)
        return twins[rows][0]

    def _loop(self, name: str, x: Any) -> Any:
        """The Keras method `name` that suits the data `x`."""
        return getattr(super(), name)

    def _check_workers(self, x: Any) -> None:
        workers = getattr(x, "workers", 0)
        if (
            isinstance(x, keras.utils.PyDataset)
            and workers > 1
            and self.memory_batch_size is not None
        ):
            raise ValueError(
                "Data for a model with memory must come from one worker: "
                f"several deliver out of order. Received: workers={workers}. "
                "Use workers=1."
            )

    def _check_training_data(
        self, x: Any, batch_size: int | None, capacity: int
    ) -> tuple[Any, int | None]:
        """Refuse what would mix streams; choose a batch size for arrays."""
        self._check_workers(x)
        x, rows = rows_of_first_batch(x)
        rows = batch_size or rows
        if rows is not None and rows > capacity:
            raise ValueError(
                "A training batch must not have more rows than the memory "
                f"holds streams. Received: batches of {rows} rows, the model "
                f"was built with batch_size={capacity}. Use smaller batches, "
                "or build the model with a larger `batch_size`."
            )
        if batch_size is None and is_array_data(x):
            batch_size = capacity
        check_batches(self, x, batch_size, batch_size or rows, capacity)
        return x, batch_size

    def _evaluation_rows(
        self, x: Any, batch_size: int | None, rows: int | None
    ) -> int | None:
        """The batch size for Keras: that of the memory, of arrays."""
        capacity = self.memory_batch_size
        if batch_size is None and is_array_data(x):
            batch_size = capacity
        if capacity is not None:
            check_batches(self, x, batch_size, batch_size or rows, capacity)
        return batch_size

    @contextmanager
    def _clean_evaluation(self) -> Iterator[None]:
        """An empty evaluation bank, and variables that survive an error."""
        self.reset_memory("eval")
        with kept_variables(self):
            yield


@keras.saving.register_keras_serializable(package="keras_txl")
class StatefulModel(StatefulModelMixin, keras.Model):
    """A functional model of one's own with `SegmentMemory` layers.

    See `StatefulModelMixin` for what it adds to `keras.Model`.

    Example:
    ```python
    inputs = keras.Input((None, 8))
    context, _ = keras_txl.layers.SegmentMemory(4, batch_size=2)(inputs)
    outputs = keras.layers.Dense(1)(context)
    model = keras_txl.models.StatefulModel(inputs, outputs)
    ```

    A head of one's own on a backbone:
    ```python
    hidden = backbone(backbone.input)
    outputs = keras.layers.Dense(3)(hidden)
    model = keras_txl.models.StatefulModel(backbone.input, outputs)
    ```
    """

    def normalize_inputs(self, inputs: Any) -> Any:
        """On the inputs of a backbone: fill in what is missing, as it does."""
        graph = self.input
        if not isinstance(graph, dict) or "document_ids" not in graph:
            return inputs
        if set(graph) == {FEATURES, "document_ids"}:
            return normalize_inputs(inputs, graph[FEATURES].shape[-1])
        if set(graph) == {TOKEN_IDS, "document_ids"}:
            return normalize_inputs(inputs)
        return inputs


def memories_of(model: Any) -> Iterator[SegmentMemory]:
    """The `SegmentMemory` layers of a model, nested models included."""
    for layer in model.layers:
        if isinstance(layer, SegmentMemory):
            yield layer
        elif isinstance(layer, keras.Model):
            yield from memories_of(layer)
