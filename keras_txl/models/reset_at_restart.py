"""Memory that starts anew where the training data do."""

from typing import Any

import keras


class ResetAtRestart(keras.callbacks.Callback):
    """Empties the training bank when the data starts from its beginning.

    Args:
        model: whose `reset_memory` is called.
        at_begin: bool. Whether also when training begins.
        steps_per_epoch: int. As `fit` got it.
        batches_per_pass: int. Batches of the data; `None` if unknown.
    """

    def __init__(
        self,
        model: Any,
        at_begin: bool,
        steps_per_epoch: int | None,
        batches_per_pass: int | None,
    ) -> None:
        super().__init__()
        self.stateful_model = model
        self.due = at_begin
        self.steps_per_epoch = steps_per_epoch
        self.batches_per_pass = batches_per_pass
        self.batches_seen = 0
        self.batches_of_epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.due:
            self.stateful_model.reset_memory("train")
        self.due = self.steps_per_epoch is None
        self.batches_of_epoch = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches_of_epoch = batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # With `steps_per_epoch` the iterator goes on over epochs and restarts
        # at the end of the epoch that used up the data. Data of unknown
        # length tell their end by an epoch that is too short.
        if self.steps_per_epoch is None:
            return
        self.batches_seen += self.batches_of_epoch
        if self.batches_of_epoch < self.steps_per_epoch or (
            self.batches_per_pass and self.batches_seen >= self.batches_per_pass
        ):
            self.due = True
            self.batches_seen = 0
