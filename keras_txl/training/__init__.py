"""Training aids: checkpoints, learning rates, optimizers and monitors."""

from keras_txl.training.checkpoint import TrainingCheckpoint
from keras_txl.training.checkpoint_file import read_checkpoint
from keras_txl.training.checkpoint_file import write_checkpoint
from keras_txl.training.monitors import AttentionEntropy
from keras_txl.training.monitors import GradientNorms
from keras_txl.training.monitors import MemoryNorms
from keras_txl.training.monitors import Monitor
from keras_txl.training.nan_guard import NaNGuard
from keras_txl.training.optimizers import make_optimizer
from keras_txl.training.resume import TrainingPosition
from keras_txl.training.resume import continue_fit
from keras_txl.training.resume import restore_training
from keras_txl.training.schedules import WarmupInverseSquareRootDecay
from keras_txl.training.schedules import WarmupLinearDecay
from keras_txl.training.schedules import warmup_cosine_decay
from keras_txl.training.time_budget import TimeBudget

__all__ = [
    "AttentionEntropy",
    "GradientNorms",
    "MemoryNorms",
    "Monitor",
    "NaNGuard",
    "TimeBudget",
    "TrainingCheckpoint",
    "TrainingPosition",
    "WarmupInverseSquareRootDecay",
    "WarmupLinearDecay",
    "continue_fit",
    "make_optimizer",
    "read_checkpoint",
    "restore_training",
    "warmup_cosine_decay",
    "write_checkpoint",
]
