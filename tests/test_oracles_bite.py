"""Planted faults: each must turn the comparison with the oracle red.

A fault replaces one pure function of the library wherever it is used. The
same comparison, on the same numbers, is green without a fault.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras import ops

from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.gradients import gradient_at
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import empty_memory
from tests.oracles.model_oracle import run_model
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

WINDOW = 6
SLOTS = 4
# Two streams in three segments: documents that go on, end, or start in
# mid-segment, and padding in the middle.
DOCUMENTS = (
    np.array([[0, 0, 0, 0, 0], [0, 0, 0, -1, 0]], "int32"),
    np.array([[0, 0, 0, 1, 1], [0, -1, 0, 0, 0]], "int32"),
    np.array([[1, 1, 1, 1, 1], [2, 2, 2, 2, 2]], "int32"),
)


def build_lm() -> Any:
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM

    lm = TransformerXLCausalLM(
        TransformerXLBackbone(
            vocabulary_size=9,
            num_layers=2,
            num_heads=2,
            hidden_dim=6,
            intermediate_dim=8,
            memory_length=SLOTS,
            attention_window=WINDOW,
            batch_size=2,
            dropout=0.0,
        )
    )
    randomize(lm, seed=11)
    return lm


def compare_values(lm: Any) -> None:
    """Memory as a value: hidden states and memory against the oracle."""
    run = compiled(lm.backbone.call_with_memory)
    memory = lm.initial_memory(2)
    for inputs, expected in expected_segments(lm):
        hidden, memory = run(inputs, memory)
        assert_close(hidden, expected.hidden, tolerances.FLOAT32, "hidden")
        for key in ("states", "length", "document"):
            assert_close(
                memory[key],
                expected.memory[key],
                tolerances.FLOAT32,
                f"memory: {key}",
            )


def compare_calls(lm: Any) -> None:
    """Memory in the layers: logits of one call after the other."""
    for inputs, expected in expected_segments(lm):
        valid = inputs["document_ids"] >= 0
        assert_close(
            to_numpy(lm(inputs))[valid],
            expected.logits[valid],
            tolerances.FLOAT32,
            "logits",
        )


def compare_gradients(lm: Any) -> None:
    """The loss of a segment does not pull on memory."""
    rng = np.random.default_rng(1)
    token_ids = rng.integers(0, 9, size=(2, 5)).astype("int32")
    shape = (2, 2, SLOTS, 6)
    counts = {
        "length": np.full(2, SLOTS, "int32"),
        "document": np.zeros(2, "int32"),
    }

    def loss(states: Any) -> Any:
        hidden, _ = lm.backbone.call_with_memory(
            token_ids, {"states": states, **counts}, training=True
        )
        return ops.sum(ops.square(hidden))

    gradient = gradient_at(loss, rng.normal(size=shape).astype("float32"))
    assert_close(
        gradient, np.zeros(shape), tolerances.EXACT, "gradient of memory"
    )


def expected_segments(lm: Any) -> list[tuple[dict[str, Any], Any]]:
    rng = np.random.default_rng(0)
    config = OracleConfig(num_layers=2, attention_window=WINDOW)
    memory = empty_memory(2, 2, SLOTS, 6)
    segments = []
    for document_ids in DOCUMENTS:
        token_ids = rng.integers(0, 9, size=(2, 5)).astype("int32")
        result = run_model(
            config, oracle_weights(lm), token_ids, document_ids, memory
        )
        memory = result.memory
        inputs = {"token_ids": token_ids, "document_ids": document_ids}
        segments.append((inputs, result))
    return segments


def plant(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fault: Callable[..., Callable[..., Any]],
) -> None:
    """Replace the function `name` in every module that holds it."""
    from keras_txl.layers import attention_mask
    from keras_txl.layers import attention_scores
    from keras_txl.layers import relative_shift
    from keras_txl.layers import segment_memory

    homes = (
        attention_scores,
        relative_shift,
        segment_memory,
        attention_mask,
    )
    home = next(
        module
        for module in homes
        if getattr(getattr(module, name, None), "__module__", "")
        == module.__name__
    )
    original = getattr(home, name)
    replacement = fault(original)
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] != "keras_txl":
            continue
        for key, value in list(vars(module).items()):
            if value is original:
                monkeypatch.setattr(module, key, replacement)


def shift_off_by_one(original):
    return lambda scores: ops.roll(original(scores), 1, axis=-1)


def shift_left_out(original):
    return lambda scores: scores[..., 1:]


def biases_swapped(original):
    def faulty(*args, **kwargs):
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        given["content_bias"], given["position_bias"] = (
            given["position_bias"],
            given["content_bias"],
        )
        return original(**given)

    return faulty


def scale_left_out(original):
    def faulty(query, *args, **kwargs):
        scores = original(query, *args, **kwargs)
        return [part * query.shape[-1] ** 0.5 for part in scores]

    return faulty


def memory_order_reversed(original):
    return lambda states, hidden: original(ops.flip(states, axis=1), hidden)


def memory_of_another_row(original):
    return lambda states, hidden: original(ops.roll(states, 1, axis=0), hidden)


def memory_ignored(original):
    return lambda length, *others: original(ops.zeros_like(length), *others)


def memory_one_token_late(original):
    def faulty(context, token_count, length, memory_slots):
        earlier = ops.maximum(token_count - 1, 0)
        return original(context, earlier, length, memory_slots)

    return faulty


def memory_survives_a_border(original):
    return lambda length, document, document_ids: length


def mask_one_wide(original):
    """The key one step in the future is seen."""

    def faulty(segment_length, key_length, window=None):
        mask = original(segment_length, key_length, window)
        return ops.logical_or(mask, ops.roll(mask, 1, axis=-1))

    return faulty


def window_one_wide(original):
    return lambda segment_length, key_length, window=None: original(
        segment_length, key_length, None if window is None else window + 1
    )


def window_one_narrow(original):
    return lambda segment_length, key_length, window=None: original(
        segment_length, key_length, None if window is None else window - 1
    )


def documents_ignored(original):
    return lambda document_ids: ops.zeros_like(original(document_ids))


FAULTS = [
    ("shift_padded", shift_off_by_one),
    ("shift_padded", shift_left_out),
    ("relative_attention_scores", biases_swapped),
    ("relative_attention_scores", scale_left_out),
    ("join_memory", memory_order_reversed),
    ("join_memory", memory_of_another_row),
    ("recall", memory_ignored),
    ("recall", memory_survives_a_border),
    ("update_memory", memory_one_token_late),
    ("attention_mask", mask_one_wide),
    ("attention_mask", window_one_wide),
    ("attention_mask", window_one_narrow),
    ("document_blocks", documents_ignored),
]


@pytest.mark.parametrize(
    "compare", [compare_values, compare_calls, compare_gradients]
)
def test_without_a_fault_the_comparison_is_green(compare):
    compare(build_lm())


@pytest.mark.parametrize("compare", [compare_values, compare_calls])
@pytest.mark.parametrize(
    "name, fault", FAULTS, ids=[fault.__name__ for _, fault in FAULTS]
)
def test_a_fault_turns_the_comparison_red(monkeypatch, compare, name, fault):
    lm = build_lm()
    plant(monkeypatch, name, fault)
    with pytest.raises(AssertionError, match="values differ"):
        compare(lm)


def test_a_gradient_that_is_not_stopped_turns_the_comparison_red(monkeypatch):
    lm = build_lm()
    monkeypatch.setattr(ops, "stop_gradient", lambda values: values)
    with pytest.raises(AssertionError, match="gradient of memory"):
        compare_gradients(lm)


@pytest.mark.parametrize("value", [1.0 + 2e-5, np.nan, np.inf])
def test_the_comparison_sees_one_wrong_number(value):
    expected = np.ones((2, 3))
    actual = expected.copy()
    assert_close(actual, expected, tolerances.FLOAT32, "equal arrays")
    actual[1, 2] = value
    with pytest.raises(AssertionError, match="Worst at .1, 2."):
        assert_close(actual, expected, tolerances.FLOAT32, "arrays")


def test_the_comparison_sees_a_shape_that_would_broadcast():
    with pytest.raises(AssertionError, match="shape"):
        assert_close(
            np.ones((2, 1)), np.ones((2, 3)), tolerances.FLOAT32, "arrays"
        )
