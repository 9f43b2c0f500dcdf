"""Reads the same streams under each memory of a borrowed model.

Axes: P memories (value, evaluation bank, training bank), B rows, N tokens of
a stream, T segment.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_txl.analysis.memory_paths import BankPath
from keras_txl.analysis.memory_paths import ValuePath
from keras_txl.analysis.memory_paths import compiled_logits
from keras_txl.checks import check_optional_integer


@contextmanager
def borrowed(
    lm: Any, weight_scale: float | None, rng: np.random.Generator
) -> Iterator[None]:
    """Random weights for a while; all variables are given back."""
    kept = [(variable, _value(variable)) for variable in lm.variables]
    try:
        if weight_scale is not None:
            for variable in lm.trainable_variables:
                variable.assign(rng.normal(0, weight_scale, variable.shape))
        with _own_generator_of_torch():
            yield
    finally:
        for variable, value in kept:
            variable.assign(value)


def _value(variable: Any) -> Any:
    return ops.stop_gradient(ops.copy(variable.value))


def _own_generator_of_torch() -> AbstractContextManager[Any]:
    """On PyTorch dropout draws from a generator that all code shares."""
    if keras.backend.backend() != "torch":
        return nullcontext()
    import torch

    return torch.random.fork_rng()


def _seed_generator_of_torch(seed: int) -> None:
    if keras.backend.backend() == "torch":
        import torch

        torch.manual_seed(seed)


@dataclass(frozen=True)
class Stream:
    """A stream before anything in it is changed.

    Args:
        documents: int array `(B, N)`, -1 on padding.
        tokens: int array `(P, B, N)`.
        targets: int array `(B, N)`, drawn apart from the tokens.
        losses: float array `(P, B, N)` in nats.
    """

    documents: np.ndarray
    tokens: np.ndarray
    targets: np.ndarray
    losses: np.ndarray


class LeakProbe:
    """The losses of streams under each memory that a model has.

    Args:
        lm: a `TransformerXLCausalLM`.
        segment_length: int T. `None`: half of what memory shows, at least 4.
        rng: draws tokens.

    Raises:
        ValueError: if the model has no memory.
    """

    def __init__(
        self, lm: Any, segment_length: int | None, rng: np.random.Generator
    ) -> None:
        self.lm = lm
        self.rng = rng
        banks = lm.memory_batch_size
        self.rows = banks or 2
        paths: list[ValuePath | BankPath] = [ValuePath(lm, self.rows)]
        if banks is not None:
            call = compiled_logits(lm)
            paths += [BankPath(lm, name, call) for name in ("eval", "train")]
        self.paths = [path for path in paths if path.reach > 0]
        if not self.paths:
            raise ValueError(
                "`lm` must have a memory that its attention window shows. "
                f"Received: memory_length={lm.backbone.memory_length}, "
                f"attention_window={lm.backbone.attention_window!r}. Build "
                "the model with a larger `memory_length`."
            )
        reach = max(path.reach for path in self.paths)
        self.segment_length = (
            check_optional_integer("segment_length", segment_length, 1)
            or max(4, reach // 2)  # borders must lie in mid-segment
        )
        # Random states are variables, but no weights, as banks are.
        weights = {id(variable) for variable in lm.weights}
        self._seeds = [
            (variable, _value(variable))
            for variable in lm.variables
            if id(variable) not in weights
        ]

    def check_documents(self, document_ids: Any) -> np.ndarray:
        """`document_ids` as int32, if they fit the memory and the segments.

        Raises:
            ValueError: if they do not.
        """
        documents = np.asarray(document_ids)
        if (
            documents.dtype.kind not in "iu"
            or documents.ndim != 2
            or documents.shape[0] != self.rows
            or documents.shape[1] % self.segment_length
        ):
            raise ValueError(
                "`document_ids` must be integers of shape "
                f"({self.rows}, a multiple of {self.segment_length}): rows of "
                "the memory, tokens in whole segments. Received: "
                f"document_ids.shape={documents.shape}, dtype="
                f"{documents.dtype}. Pad with -1, or pass `segment_length`."
            )
        return documents.astype("int32")

    def stream(self, documents: np.ndarray) -> Stream:
        """Random text of these documents, and its losses."""
        tokens, targets = self.draw(documents.shape[1])
        losses = self.read(tokens, documents, targets)
        return Stream(documents, tokens, targets, losses)

    def draw(self, num_tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Random tokens `(P, B, N)` and targets `(B, N)`."""
        size = self.lm.backbone.vocabulary_size
        shape = (len(self.paths) + 1, self.rows, num_tokens)
        ids = self.rng.integers(0, size, shape).astype("int32")
        return ids[1:], ids[0]

    def changed(self, tokens: np.ndarray, where: Any) -> np.ndarray:
        """`tokens` with another one wherever `where` holds."""
        size = self.lm.backbone.vocabulary_size
        other = (tokens + self.rng.integers(1, size, tokens.shape)) % size
        return np.where(where, other, tokens).astype("int32")

    def read(
        self,
        tokens: np.ndarray,
        documents: np.ndarray,
        targets: np.ndarray,
        draw: int = 0,
    ) -> np.ndarray:
        """Losses `(P, B, N)` in nats of new streams `tokens (P, B, N)`.

        Every segment meets the same dropout, another one for each `draw`.
        """
        for path in self.paths:
            path.start()
        found = np.zeros(tokens.shape)
        for start in range(0, tokens.shape[-1], self.segment_length):
            self._set_dropout(draw)
            part = slice(start, start + self.segment_length)
            for index, path in enumerate(self.paths):
                inputs = {
                    "token_ids": tokens[index, :, part],
                    "document_ids": documents[:, part],
                }
                found[index, :, part] = path.losses(inputs, targets[:, part])
        return found

    def _set_dropout(self, draw: int) -> None:
        for variable, value in self._seeds:
            variable.assign(value + draw)
        _seed_generator_of_torch(draw)
