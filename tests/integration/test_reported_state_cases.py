"""Faults of memory that users of other implementations reported.

| case | what was wrong | proved by |
|---|---|---|
| no memory | an empty memory, or zeros, changed the outputs | `EMPTY` |
| resets | a sentence scored differently after other sentences | `RESET` |
| short batches | the last one crashed or took another row's memory | `SHORT` |
| validation | it overwrote the training memory | `VALIDATION` |
| callbacks | on JAX a reset within `fit` had no effect | `CALLBACK` |
| generation | token by token gave another output than one call | `STEPS` |
| token 0 | read as padding; without memory it gave NaN | `TOKEN_ZERO` |
| restart | step 0, empty memory, schedule from its start | `RESTART` |

Each name below is a list of tests, and each of them exists. Sums over memories
of other lengths run in another order: `EMPTY` is exact in what empty slots
hold, and within 1e-6 in how many there are.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

TESTS = Path(__file__).resolve().parent.parent
HERE = "integration/test_reported_state_cases.py"
REPORTED = "integration/test_reported_cases.py"

EMPTY = [
    f"{REPORTED}::test_no_memory_equals_an_empty_memory_of_any_length",
    f"{REPORTED}::test_what_stands_in_empty_slots_changes_no_bit",
    f"{REPORTED}::test_zeros_that_are_attended_are_another_function",
    "integration/test_golden_vectors.py"
    "::test_losses_and_memories_with_memory_as_a_value",
]
RESET = [
    f"{REPORTED}::test_a_sentence_scores_the_same_alone_and_after_fifty_others",
    f"{REPORTED}"
    "::test_a_row_that_resets_scores_the_same_beside_one_that_does_not",
    "models/test_document_isolation_compiled.py"
    "::test_documents_stay_apart_in_the_training_step",
]
SHORT = [
    "models/test_stateful_model.py::test_the_last_batch_may_be_short",
    "models/test_stateful_model.py"
    "::test_rows_absent_from_a_batch_keep_their_memory",
    "models/test_evaluation_within_fit.py"
    "::test_a_short_last_batch_of_fit_equals_rows_read_alone",
    f"{HERE}::test_ten_rows_in_batches_of_four",
]
VALIDATION = [
    "models/test_stateful_fit.py::test_validation_changes_no_training_loss",
    "models/test_evaluation_within_fit.py"
    "::test_a_callback_that_evaluates_changes_nothing_of_training",
]
CALLBACK = [
    "models/test_evaluation_within_fit.py"
    "::test_a_reset_by_a_callback_is_seen_by_the_next_batch",
]
STEPS = [
    f"{HERE}::test_single_steps_after_a_prompt_equal_one_call",
    "models/test_generation.py"
    "::test_greedy_text_equals_one_step_a_token_far_beyond_memory",
]
TOKEN_ZERO = [f"{HERE}::test_token_zero_is_a_token_like_any_other"]
RESTART = [
    "training/test_resume.py::test_a_resumed_run_equals_the_uninterrupted_one",
    "training/test_killed_run.py"
    "::test_every_loss_equals_the_run_that_nothing_killed",
]


@pytest.mark.parametrize(
    "name",
    [
        *EMPTY,
        *RESET,
        *SHORT,
        *VALIDATION,
        *CALLBACK,
        *STEPS,
        *TOKEN_ZERO,
        *RESTART,
    ],
)
def test_the_tests_named_above_exist(name):
    path, _, function = name.partition("::")
    text = (TESTS / path).read_text()
    assert re.search(rf"^def {function}\(", text, re.MULTILINE)


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(memory_length=32, batch_size=4)
    randomize(lm, seed=8)
    return lm


def test_ten_rows_in_batches_of_four(lm):
    """Of (4, 4, 2) rows: rows 0 and 1 have three segments, 2 and 3 two."""
    rows = np.random.default_rng(8).integers(0, 17, (10, 5)).astype("int32")
    logits = lm.predict(rows, batch_size=4, verbose=0)
    found = [logits[k : k + 4] for k in (0, 4, 8)]
    for row in range(4):
        memory = lm.initial_memory(1)
        for number, logits in enumerate(found):
            if row < len(logits):
                place = 4 * number + row
                alone, memory = lm.step(rows[place : place + 1], memory)
                assert_close(
                    logits[row],
                    to_numpy(alone)[0],
                    tolerances.FLOAT32,
                    f"segment {number} of row {row}",
                )


def test_single_steps_after_a_prompt_equal_one_call(lm):
    ids = np.random.default_rng(3).integers(0, 17, (1, 32)).astype("int32")
    expected, _ = lm.step(ids, lm.initial_memory(1))
    logits, memory = lm.step(ids[:, :12], lm.initial_memory(1))
    found = [to_numpy(logits)]
    for place in range(12, 32):
        one = ids[:, place : place + 1]  # exactly one token
        logits, memory = lm.step(one, memory)
        found.append(to_numpy(logits))
    assert to_numpy(memory["length"]).tolist() == [32]
    assert_close(
        np.concatenate(found, axis=1), expected, tolerances.FLOAT32, "logits"
    )


def test_token_zero_is_a_token_like_any_other(lm):
    """Tokens 0 and 5 change names: all else stays."""
    ids = np.array([[0, 3, 0, 5, 0, 0, 7, 5, 1, 2, 0, 4]], "int32")
    names = np.array([5, 1, 2, 3, 4, 0, *range(6, 17)], "int32")
    tables = (lm.backbone.token_embedding.embeddings, lm.output_bias.bias)
    kept = [to_numpy(table).copy() for table in tables]
    first, _ = lm.step(ids, lm.initial_memory(1))
    for table, values in zip(tables, kept, strict=True):
        table.assign(values[names])
    second, _ = lm.step(names[ids], lm.initial_memory(1))
    for table, values in zip(tables, kept, strict=True):
        table.assign(values)
    first, second = to_numpy(first), to_numpy(second)
    assert np.isfinite(first).all()
    assert np.abs(first[0, 0]).max() > 0.1
    assert_close(second[..., names], first, tolerances.FLOAT32, "logits")
