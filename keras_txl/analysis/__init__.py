"""What a model does with its memory: proofs and measurements."""

from keras_txl.analysis.attention_maps import attention_by_distance
from keras_txl.analysis.attention_maps import attention_entropy
from keras_txl.analysis.attention_terms import RelativeKeys
from keras_txl.analysis.attention_terms import attention_terms
from keras_txl.analysis.attention_terms import relative_keys
from keras_txl.analysis.effective_context import EffectiveContext
from keras_txl.analysis.effective_context import find_effective_context
from keras_txl.analysis.effective_context import losses_by_context
from keras_txl.analysis.effective_context import (
    relative_effective_context_length,
)
from keras_txl.analysis.effective_context import relative_gain
from keras_txl.analysis.leak_report import LeakCheck
from keras_txl.analysis.leak_report import LeakReport
from keras_txl.analysis.leaks import assert_no_leaks
from keras_txl.analysis.leaks import check_isolation
from keras_txl.analysis.loss_curves import PositionLosses
from keras_txl.analysis.loss_curves import loss_by_memory_length
from keras_txl.analysis.loss_curves import loss_by_position
from keras_txl.analysis.memory_trace import MemoryTrace
from keras_txl.analysis.memory_trace import trace_memory

__all__ = [
    "EffectiveContext",
    "LeakCheck",
    "LeakReport",
    "MemoryTrace",
    "PositionLosses",
    "RelativeKeys",
    "assert_no_leaks",
    "attention_by_distance",
    "attention_entropy",
    "attention_terms",
    "check_isolation",
    "find_effective_context",
    "loss_by_memory_length",
    "loss_by_position",
    "losses_by_context",
    "relative_effective_context_length",
    "relative_gain",
    "relative_keys",
    "trace_memory",
]
