"""Training aids: checkpoints to go on from, and budgets of time."""

from keras_txl.training.checkpoint import TrainingCheckpoint
from keras_txl.training.checkpoint_file import read_checkpoint
from keras_txl.training.checkpoint_file import write_checkpoint
from keras_txl.training.resume import TrainingPosition
from keras_txl.training.resume import continue_fit
from keras_txl.training.resume import restore_training
from keras_txl.training.time_budget import TimeBudget

__all__ = [
    "TimeBudget",
    "TrainingCheckpoint",
    "TrainingPosition",
    "continue_fit",
    "read_checkpoint",
    "restore_training",
    "write_checkpoint",
]
