"""Everything that a report tells of a model that reads texts.

Axes: L layers, N heads, S = M + T distances, C calls.
"""

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.analysis import EffectiveContext
from keras_txl.analysis import MemoryTrace
from keras_txl.analysis import PositionLosses
from keras_txl.analysis import RelativeKeys
from keras_txl.analysis import attention_by_distance
from keras_txl.analysis import attention_entropy
from keras_txl.analysis import attention_terms
from keras_txl.analysis import find_effective_context
from keras_txl.analysis import loss_by_position
from keras_txl.analysis import losses_by_context
from keras_txl.analysis import relative_keys
from keras_txl.analysis import trace_memory
from keras_txl.checks import check_integer
from keras_txl.evaluation import BootstrapInterval
from keras_txl.evaluation import StreamEvaluation
from keras_txl.evaluation import bootstrap_difference
from keras_txl.evaluation import evaluate_stream
from keras_txl.evaluation import token_losses
from keras_txl.report.shown_text import Piece
from keras_txl.report.shown_text import shown_pieces

SHOWN_TOKENS = 2400
RATIOS = (0.1, 0.5, 1.0)  # the paper's
RECL_SHARE = 16
"""One token of so many is read anew at each length for the RECL."""


@dataclass(frozen=True)
class ReadingMeasurements:
    """What a model made of texts, with memory and without.

    Args:
        unit: what a token is called.
        num_documents: texts that were read.
        segment_length: tokens read in one call.
        memory_length: tokens kept in memory.
        pieces: the beginning of the texts, with the loss of each piece.
        share_helped: share of the tokens that cost less with memory.
        curve: evaluation of the same tokens at each memory length.
        interval: bits a token with memory minus without, over documents;
            `None` for a single one.
        positions: loss by place in the segment, by memory length.
        attention: float array of shape `(num_layers, num_heads,
            key_length)`, attention by distance.
        entropy: float array of shape `(num_layers, num_heads)`, in nats.
        terms: for each of the four terms a float array of shape
            `(num_layers, num_heads)`: the standard deviation over the keys
            that a query sees, which is what moves attention. `None` where
            scores are no sum of these.
        relative_keys: the matrix W_kR of each layer; `None` where there is
            none.
        trace: norms and drift of memory.
        effective_context: RECL by ratio; empty if the texts are too short.
        effective_context_step: tokens by which its context grows.
    """

    unit: str
    num_documents: int
    segment_length: int
    memory_length: int
    pieces: list[Piece]
    share_helped: float
    curve: dict[int, StreamEvaluation]
    interval: BootstrapInterval | None
    positions: dict[int, PositionLosses]
    attention: np.ndarray
    entropy: np.ndarray
    terms: dict[str, np.ndarray] | None
    relative_keys: RelativeKeys | None
    trace: MemoryTrace
    effective_context: dict[float, EffectiveContext]
    effective_context_step: int

    @property
    def bits_without(self) -> float:
        """Loss without memory, in bits a token."""
        return self.curve[0].bits_per_token

    @property
    def bits_with(self) -> float:
        """Loss with memory, in bits a token."""
        return self.curve[self.memory_length].bits_per_token

    def to_json(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them; `None` where there is none."""
        found = {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
        }
        for length, told in found["curve"].items():
            told["bits_per_token"] = self.curve[int(length)].bits_per_token
        if self.relative_keys is not None:  # the matrix itself is long
            found["relative_keys"] = {
                "wavelengths": _plain(self.relative_keys.wavelengths),
                "strengths": _plain(self.relative_keys.strengths),
            }
        bits = {"without": self.bits_without, "with": self.bits_with}
        return {"bits_per_token": bits, **found}


def measure_reading(
    lm: Any,
    documents: Sequence[np.ndarray],
    *,
    segment_length: int,
    memory_length: int | None = None,
    unit: str = "token",
    progress: Callable[[int, int, str], None] | None = None,
) -> ReadingMeasurements:
    """Let a model read texts, and measure what it does.

    Args:
        lm: a `TransformerXLCausalLM` with a preprocessor.
        documents: 1-D integer arrays.
        segment_length: tokens read in one call.
        memory_length: tokens kept in memory. Defaults to the model's
            `eval_memory_length`.
        unit: what a token is called.
        progress: called as `progress(done, total, note)` before each part.

    Returns:
        A `ReadingMeasurements`.

    Raises:
        ValueError: if the model has no preprocessor, nothing is kept in
            memory, or no document has two tokens.
    """
    memory_length = _checked_memory_length(lm, memory_length)
    lengths = _memory_lengths(lm, memory_length, segment_length)
    usual: dict[str, Any] = {
        "segment_length": segment_length,
        "memory_length": memory_length,
    }
    # Beside the curve: two losses with memory and without, and five more.
    parts = _Parts(len(lengths) + 2 * 2 + 5, progress)
    losses = _measure_losses(lm, documents, lengths, parts, **usual)
    inside = _measure_inside(lm, documents, parts, **usual)
    parts.begin("effective context")
    step = max(segment_length // 2, 1)
    contexts = _effective_contexts(
        lm, max(documents, key=len), step, segment_length + memory_length
    )
    parts.end()
    return ReadingMeasurements(
        unit=unit,
        num_documents=len(documents),
        **usual,
        **losses,
        **inside,
        effective_context=contexts,
        effective_context_step=step,
    )


class _Parts:
    """Tells which part of the work begins."""

    def __init__(self, total: int, progress: Any) -> None:
        self._total, self._progress, self._done = total, progress, 0

    def begin(self, note: str) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, note)
        self._done += 1

    def end(self) -> None:
        self._done = self._total
        self.begin("")


def _checked_memory_length(lm: Any, memory_length: int | None) -> int:
    """Tokens kept in memory by a model that can be measured."""
    if lm.preprocessor is None:
        raise ValueError(
            "`lm` must have a preprocessor, whose tokenizer tells the text of "
            "its tokens. Received: lm.preprocessor=None. Build the model with "
            "a TransformerXLCausalLMPreprocessor."
        )
    if memory_length is None:
        memory_length = int(lm.initial_memory(1)["states"].shape[2])
    return check_integer("memory_length", memory_length, 1)


def _measure_losses(
    lm: Any,
    documents: Sequence[np.ndarray],
    lengths: Sequence[int],
    parts: _Parts,
    *,
    segment_length: int,
    memory_length: int,
) -> dict[str, Any]:
    """What memory does to the loss: fields of `ReadingMeasurements`."""
    curve: dict[int, StreamEvaluation] = {}
    for length in lengths:
        parts.begin(f"memory {length}")
        curve[length] = evaluate_stream(
            lm,
            documents,
            segment_length=segment_length,
            memory_length=length,
            batch_size=1,
        )
    losses, positions = {}, {}
    for length in (0, memory_length):
        own: dict[str, Any] = {
            "segment_length": segment_length,
            "memory_length": length,
        }
        parts.begin("loss of each token")
        losses[length] = token_losses(lm, documents, **own)
        parts.begin("place in the segment")
        positions[length] = loss_by_position(lm, documents, **own)
    cold, warm = (np.concatenate(found) for found in losses.values())
    return {
        "curve": curve,
        "interval": _interval(curve[memory_length], curve[0]),
        "positions": positions,
        "share_helped": float((warm < cold).mean()),
        "pieces": shown_pieces(
            lm.preprocessor.tokenizer.detokenize,
            documents,
            losses[memory_length],
            losses[0],
            SHOWN_TOKENS,
        ),
    }


def _measure_inside(
    lm: Any,
    documents: Sequence[np.ndarray],
    parts: _Parts,
    *,
    segment_length: int,
    memory_length: int,
) -> dict[str, Any]:
    """Where heads look and what they remember: further fields."""
    usual: dict[str, Any] = {
        "segment_length": segment_length,
        "memory_length": memory_length,
    }
    parts.begin("attention by distance")
    attention = attention_by_distance(lm, documents, **usual)
    parts.begin("entropy of attention")
    entropy = attention_entropy(lm, documents, **usual)
    parts.begin("trace of memory")
    trace = trace_memory(lm, documents, **usual)
    parts.begin("four terms")
    terms = _spread_of_terms(lm, max(documents, key=len), **usual)
    return {
        "attention": attention,
        "entropy": entropy,
        "trace": trace,
        "terms": terms,
        "relative_keys": None
        if terms is None
        else relative_keys(lm, segment_length + memory_length),
    }


def _interval(
    with_memory: StreamEvaluation, without: StreamEvaluation
) -> BootstrapInterval | None:
    """Of the difference, where there are documents to draw from."""
    if (without.document_targets > 0).sum() < 2:
        return None
    return bootstrap_difference(with_memory, without)


def _memory_lengths(lm: Any, usual: int, segment_length: int) -> list[int]:
    """Shorter ones, and longer ones where distances reach so far."""
    shorter = {usual // 4, usual // 2}
    if isinstance(lm.backbone.attention_mask.window_setting(), str):
        # Such a window would hide a part of the segment itself.
        shorter = {length for length in shorter if length >= segment_length}
    lengths = {0, *shorter, usual}
    if lm.backbone.position == "relative_sinusoidal":
        lengths |= {2 * usual, 4 * usual}
    return sorted(lengths)


def _spread_of_terms(
    lm: Any, ids: np.ndarray, segment_length: int, memory_length: int
) -> dict[str, np.ndarray] | None:
    """Of one segment, read behind as much memory as the text fills."""
    if lm.backbone.position != "relative_sinusoidal":
        return None
    calls = min(
        -(-memory_length // segment_length),
        max(len(ids) // segment_length - 1, 0),
    )
    segments = np.asarray(ids[: (calls + 1) * segment_length], "int32")[None]
    memory = lm.initial_memory(1, memory_length)
    for call in range(calls):
        begin = call * segment_length
        segment = segments[:, begin : begin + segment_length]
        _, memory = lm.step(segment, memory)
    terms = attention_terms(lm, segments[:, calls * segment_length :], memory)
    return {
        name: np.nanstd(values.astype("float64"), axis=-1).mean(axis=(1, 3))
        for name, values in terms.items()  # (L, B, N, T, S)
    }


def _effective_contexts(
    lm: Any, ids: np.ndarray, step: int, longest: int
) -> dict[float, EffectiveContext]:
    longest = min(longest, len(ids) // 2)
    if longest < 2 * step:
        return {}
    tokens = max(len(ids) // RECL_SHARE, step)
    losses_at = losses_by_context([lm], ids[: longest + tokens], longest)
    return {
        ratio: find_effective_context(
            losses_at, step=step, longest=longest, ratio=ratio
        )
        for ratio in RATIOS
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
