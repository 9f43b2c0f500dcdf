"""Training aids: runs that go on, learning rates, optimizers, monitors."""

from keras_txl.training.checkpoint_file import read_checkpoint
from keras_txl.training.checkpoint_file import write_checkpoint
from keras_txl.training.fine_tuning import GradualUnfreezing
from keras_txl.training.fine_tuning import WidenMemory
from keras_txl.training.layer_rates import layerwise_decay
from keras_txl.training.memory_callbacks import ResetMemory
from keras_txl.training.monitors import AttentionEntropy
from keras_txl.training.monitors import GradientNorms
from keras_txl.training.monitors import MemoryNorms
from keras_txl.training.monitors import Monitor
from keras_txl.training.nan_guard import NaNGuard
from keras_txl.training.optimizers import make_optimizer
from keras_txl.training.resume import ResumeTraining
from keras_txl.training.schedules import WarmupInverseSquareRootDecay
from keras_txl.training.schedules import WarmupLinearDecay
from keras_txl.training.schedules import warmup_cosine_decay
from keras_txl.training.time_budget import TimeBudget

__all__ = [
    "AttentionEntropy",
    "GradientNorms",
    "GradualUnfreezing",
    "MemoryNorms",
    "Monitor",
    "NaNGuard",
    "ResetMemory",
    "ResumeTraining",
    "TimeBudget",
    "WarmupInverseSquareRootDecay",
    "WarmupLinearDecay",
    "WidenMemory",
    "layerwise_decay",
    "make_optimizer",
    "read_checkpoint",
    "warmup_cosine_decay",
    "write_checkpoint",
]
