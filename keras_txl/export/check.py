"""The segments on which an exported file must equal the Keras model.

Four sessions are read segment by segment, one after the other, each with its
own memory fed back: two of one row, three rows at once, and three rows of
unequal lengths, some of which read nothing. All arrays are NumPy's, so that a
check needs no Keras; only `expected_values` does.

Axes: B rows, T segment, V vocabulary, L layers, M memory slots, D hidden width.
"""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_txl.export.errors import ExportMismatchError

Array = np.ndarray[Any, Any]

SEGMENT_LENGTHS = (1, 7, 16, 16, 3, 1)
SESSIONS = {"first": 1, "second": 1, "three_rows": 3, "unequal_rows": 3}
"""Rows of each session."""

INPUTS = ("token_ids", "token_length", "targets")
OUTPUTS = ("logits", "token_losses", "memory", "memory_length")
MOST_COLUMNS = 4096
"""Of logits over larger vocabularies, this many columns are compared."""

Step = Callable[[dict[str, Array], Any], tuple[dict[str, Array], Any]]
"""(inputs of a segment, state) -> (outputs of a segment, state)."""


def check_segments(
    vocabulary_size: int,
) -> dict[str, list[dict[str, Array]]]:
    """The inputs of each session, segment by segment.

    Args:
        vocabulary_size: int V.

    Returns:
        For each session a list of dicts of int32 `token_ids (B, T)`,
        `token_length (B,)` and `targets (B, T)`. Tokens beyond `token_length`
        are any tokens.
    """
    random = np.random.default_rng(19)
    sessions = {}
    for name, rows in SESSIONS.items():
        segments = []
        for length in SEGMENT_LENGTHS:
            shape = (rows, length)
            read = [length] * rows
            if name == "unequal_rows":
                read = [length, length // 2, max(length - 5, 0)]
            segments.append(
                {
                    "token_ids": random.integers(vocabulary_size, size=shape),
                    "token_length": np.array(read),
                    "targets": random.integers(vocabulary_size, size=shape),
                }
            )
        sessions[name] = [
            {key: value.astype("int32") for key, value in segment.items()}
            for segment in segments
        ]
    return sessions


def expected_values(
    lm: Any, memory_length: int, attention_window: int | None = None
) -> dict[str, Array]:
    """What the Keras model computes on the check, on any backend.

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M.
        attention_window: see `call_with_memory`.

    Returns:
        Arrays by `"session/segment/name"`, with the names of `INPUTS` and
        `OUTPUTS`, for `np.savez` and `replay`. Of the memory there are no
        more slots than the check reads tokens, of the logits at most
        `MOST_COLUMNS` columns.
    """
    from keras import ops

    from keras_txl.models.value_function import compile_value_function

    def run(inputs: Any, targets: Any, memory: Any) -> Any:
        hidden, memory = lm.backbone.call_with_memory(
            inputs, memory, attention_window=attention_window
        )
        document_ids = inputs["document_ids"]
        logits = lm.head.logits(hidden, document_ids)
        losses = lm.head.token_losses(hidden, targets, document_ids)
        return logits, losses, memory

    def array(value: Any) -> Array:
        # NumPy has no bfloat16.
        dtype = "int32" if "int" in str(value.dtype) else "float32"
        return np.asarray(ops.convert_to_numpy(ops.cast(value, dtype)))

    compiled = compile_value_function(lm, run)
    expected = {}
    for name, segments in check_segments(lm.backbone.vocabulary_size).items():
        memory = lm.initial_memory(SESSIONS[name], memory_length)
        for index, segment in enumerate(segments):
            places = np.arange(segment["token_ids"].shape[1])
            read = places < segment["token_length"][:, None]
            inputs = lm.normalize_inputs(
                {
                    "token_ids": segment["token_ids"],
                    "document_ids": np.where(read, 0, -1),
                }
            )
            targets = ops.convert_to_tensor(segment["targets"])
            logits, losses, memory = compiled(inputs, targets, memory)
            outputs = {
                "logits": _some_columns(array(logits)),
                "token_losses": array(losses),
                "memory": _newest_slots(array(memory["states"])),
                "memory_length": array(memory["length"]),
            }
            for key, value in {**segment, **outputs}.items():
                expected[f"{name}/{index}/{key}"] = value
    return expected


def replay(
    expected: Mapping[str, Array],
    start: Callable[[int], Any],
    step: Step,
    tolerance: float,
    target: str,
    sessions: Mapping[str, int] = SESSIONS,
) -> dict[str, float]:
    """Run the check on an exported file and compare.

    Args:
        expected: from `expected_values`.
        start: `start(rows)` gives the state of a session that read nothing.
        step: runs a segment: takes its `INPUTS` and the state, returns any of
            the `OUTPUTS`, whole, and the state after it.
        tolerance: largest difference, in units of `max(1, |expected|)`.
        target: what was exported, for messages.
        sessions: those of `SESSIONS` to run.

    Returns:
        The largest absolute difference of each output that `step` gives.

    Raises:
        ExportMismatchError: if a difference is larger than `tolerance`.
    """
    states = {name: start(rows) for name, rows in sessions.items()}
    errors: dict[str, float] = {}
    for index in range(len(SEGMENT_LENGTHS)):
        for name in sessions:
            place = f"{name}/{index}"
            inputs = {key: expected[f"{place}/{key}"] for key in INPUTS}
            outputs, states[name] = step(inputs, states[name])
            for key, value in _comparable(outputs, inputs).items():
                wanted = expected[f"{place}/{key}"]
                error, scaled = _difference(value, wanted, inputs, key)
                if not scaled <= tolerance:
                    raise ExportMismatchError(
                        target, error, tolerance, f"{key} of {place}"
                    )
                errors[key] = max(error, errors.get(key, 0.0))
    return errors


def _comparable(
    outputs: dict[str, Array], inputs: dict[str, Array]
) -> dict[str, Array]:
    cut = {"logits": _some_columns, "memory": _newest_slots}
    return {
        key: cut[key](value) if key in cut else value
        for key, value in outputs.items()
    }


def _difference(
    value: Array, expected: Array, inputs: dict[str, Array], key: str
) -> tuple[float, float]:
    """Largest difference, absolute and in units of `max(1, |expected|)`."""
    if value.shape != expected.shape:
        return float("inf"), float("inf")
    if key in ("logits", "token_losses"):  # padding has no meaning
        places = np.arange(inputs["token_ids"].shape[1])
        read = places < inputs["token_length"][:, None]
        value, expected = value[read], expected[read]
    if value.size == 0:
        return 0.0, 0.0
    error = np.abs(value.astype("float64") - expected.astype("float64"))
    error = np.where(np.isnan(error), np.inf, error)
    scaled = error / np.maximum(1, np.abs(expected))
    return float(error.max()), float(scaled.max())


def _some_columns(logits: Array) -> Array:
    size = logits.shape[-1]
    if size <= MOST_COLUMNS:
        return logits
    columns = np.linspace(0, size - 1, MOST_COLUMNS).astype(int)
    return logits[..., columns]


def _newest_slots(memory: Array) -> Array:
    slots = memory.shape[2]
    return memory[:, :, max(slots - sum(SEGMENT_LENGTHS), 0) :]
