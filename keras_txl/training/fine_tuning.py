"""Callbacks of fine-tuning: what trains, and how far memory reaches, grows."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_txl.checks import check_integer
from keras_txl.models.stateful_model import memories_of
from keras_txl.training.layer_rates import LayerRatesMixin
from keras_txl.training.layer_rates import variables_by_depth


class GradualUnfreezing(keras.callbacks.Callback):
    """Trains the head first, then one block more every so many epochs.

    Blocks follow from the last to the first, the embedding and what blocks
    share at the end. The training step is compiled anew each time. When `fit`
    ends, everything may train.

    Args:
        epochs: int. Epochs until the next block joins.

    Raises:
        ValueError: in `fit`, if the optimizer cannot leave variables alone.

    Example:
    ```python
    lm.compile(make_optimizer("adam", 1e-4, rate_factors={}))
    lm.fit(stream, epochs=2, callbacks=[GradualUnfreezing()], verbose=0)
    ```

    Reference:
        Howard and Ruder 2018 (arXiv 1801.06146), section 3.3.
    """

    def __init__(self, epochs: int = 1) -> None:
        super().__init__()
        self.epochs = check_integer("epochs", epochs, 1)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        groups = variables_by_depth(self.model)
        waiting = groups[: max(0, len(groups) - 1 - epoch // self.epochs)]
        self._freeze(
            frozenset(variable.path for group in waiting for variable in group)
        )

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        self._freeze(frozenset())

    def _freeze(self, paths: frozenset[str]) -> None:
        optimizer: Any = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if not isinstance(optimizer, LayerRatesMixin):
            raise ValueError(
                "`GradualUnfreezing` needs an optimizer that can leave "
                f"variables alone. Received: {type(optimizer).__name__}. Use "
                '`keras_txl.training.make_optimizer("adam", rate, '
                "rate_factors={})`."
            )
        if paths != optimizer.frozen:
            optimizer.frozen = paths
            self.model.make_train_function(force=True)


class WidenMemory(keras.callbacks.Callback):
    """Lets training read a longer part of memory from time to time.

    Memory itself keeps all its tokens, and evaluation reads all of it: only
    what a training step attends to grows. The training step is compiled anew
    each time. When `fit` ends, nothing limits the memory.

    Args:
        lengths: ints, in tokens: what the first epochs read of memory, what
            the next ones do, ...; the last stays.
        epochs: int. Epochs until the next length.

    Example:
    ```python
    lm.fit(stream, epochs=3, callbacks=[WidenMemory([0, 2, 6])], verbose=0)
    ```
    """

    def __init__(self, lengths: Sequence[int], epochs: int = 1) -> None:
        super().__init__()
        self.lengths = [check_integer("lengths", n, 0) for n in lengths]
        if not self.lengths:
            raise ValueError(
                "`lengths` must hold at least one length. Received: none."
            )
        self.epochs = check_integer("epochs", epochs, 1)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        stage = min(epoch // self.epochs, len(self.lengths) - 1)
        self._limit(self.lengths[stage])

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        self._limit(None)

    def _limit(self, length: int | None) -> None:
        backbone = getattr(self.model, "backbone", None)
        memories = getattr(backbone, "memory_layers", None)
        changed = False
        for memory in memories or memories_of(self.model):
            changed = changed or memory.reading_limit != length
            memory.reading_limit = length
        if changed:
            self.model.make_train_function(force=True)
