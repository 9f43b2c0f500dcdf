"""Documents stay apart inside the training step, however it is compiled.

Weights do not move, and only targets of one document count, so the loss of an
epoch is a function of that document: other tokens must change it by nothing.
"""

import keras
import numpy as np
import pytest

from tests import tolerances
from tests.oracles.memory_banks import bank_of
from tests.oracles.value_losses import segment_losses
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

ROWS, LENGTH, SEGMENTS = 2, 4, 6
# Row 0: document 5 begins in mid-segment, goes on over two borders of
# segments with padding inside, and its id comes again after another one.
DOCUMENTS = np.array(
    [
        [3, 3, 3, 3, -1, 3, 5, 5, -1, 5, 5, -1, 5, 5, 5, 9, 9, 9, 5, 5, 5, 5]
        + [-1, -1],
        [0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
        + [1, 1],
    ],
    "int32",
)
FIRST, LAST = 6, 14  # the places of document 5 in row 0
OWN = np.zeros(DOCUMENTS.shape, bool)
OWN[0, FIRST : LAST + 1] = DOCUMENTS[0, FIRST : LAST + 1] == 5
LATE = OWN & (np.arange(DOCUMENTS.shape[1]) >= 12)  # its third segment

NO_JAX = pytest.mark.backend("tensorflow", "torch")
NO_TORCH = pytest.mark.backend("tensorflow", "jax")
TENSORFLOW = pytest.mark.backend("tensorflow")
STEPS = {
    "eager": ({"run_eagerly": True}, None, 6),
    "bfloat16": ({}, "mixed_bfloat16", 2),
    "float16": ({}, "mixed_float16", 3),
    "two_steps": ({"steps_per_execution": 2}, None, 2),
    "three_steps_in_bfloat16": (
        {"steps_per_execution": 3},
        "mixed_bfloat16",
        3,
    ),
    "xla": ({"jit_compile": True}, None, 3),
    "xla_two_steps_in_float16": (
        {"jit_compile": True, "steps_per_execution": 2},
        "mixed_float16",
        6,
    ),
}
# XLA compiles every step of JAX; XLA on the CPU has no product of float16;
# PyTorch executes one step at a time.
MARKS = {
    "eager": NO_JAX,
    "bfloat16": pytest.mark.backend("torch"),
    "float16": NO_JAX,
    "two_steps": NO_TORCH,
    "three_steps_in_bfloat16": NO_TORCH,
    "xla": TENSORFLOW,
    "xla_two_steps_in_float16": TENSORFLOW,
}


def batches(values):
    """`(B, N)` as arrays of which fit takes B rows for each segment."""
    parts = values.reshape(ROWS, SEGMENTS, LENGTH)
    return parts.swapaxes(0, 1).reshape(-1, LENGTH)


def losses_of_fit(lm, tokens, targets, weights, steps_per_epoch):
    """Losses of all epochs; memory goes on from one to the next."""
    history = lm.fit(
        {"token_ids": batches(tokens), "document_ids": batches(DOCUMENTS)},
        batches(targets),
        sample_weight=batches(weights.astype("float32")),
        batch_size=ROWS,
        steps_per_epoch=steps_per_epoch,
        epochs=SEGMENTS // steps_per_epoch,
        verbose=0,
    )
    return history.history["loss"]


def other_tokens(tokens, where, rng):
    shift = rng.integers(1, 17, tokens.shape)
    return np.where(where, (tokens + shift) % 17, tokens).astype("int32")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=MARKS.get(name, ())) for name in STEPS],
)
def test_documents_stay_apart_in_the_training_step(make_lm, name):
    arguments, dtype, steps_per_epoch = STEPS[name]
    lm = make_lm(dtype=dtype)
    lm.compile(
        optimizer=keras.optimizers.SGD(0.0), weighted_metrics=[], **arguments
    )
    randomize(lm, seed=9)
    rng = np.random.default_rng(9)
    tokens, targets = rng.integers(0, 17, (2, *DOCUMENTS.shape)).astype("int32")

    def losses(tokens, weights):
        return losses_of_fit(lm, tokens, targets, weights, steps_per_epoch)

    # Its own tokens, read two segments before through memory alone.
    early = OWN & (np.arange(OWN.shape[1]) < 8)
    changed = losses(other_tokens(tokens, early, rng), LATE)
    assert changed != losses(tokens, LATE)
    # Everything but document 5: other documents, the other row, padding.
    foreign = losses(other_tokens(tokens, ~OWN, rng), OWN)
    own = losses(tokens, OWN)
    assert foreign == own
    check_against_values(lm, tokens, targets, own, steps_per_epoch)


def check_against_values(lm, tokens, targets, own, steps_per_epoch):
    """Losses and bank of `fit` are those with memory as a value."""
    inputs = [
        {"token_ids": ids, "document_ids": documents}
        for ids, documents in zip(
            batches(tokens).reshape(SEGMENTS, ROWS, LENGTH),
            batches(DOCUMENTS).reshape(SEGMENTS, ROWS, LENGTH),
            strict=True,
        )
    ]
    wanted = batches(targets).reshape(SEGMENTS, ROWS, LENGTH)
    weights = batches(OWN).reshape(SEGMENTS, ROWS, LENGTH)
    found = segment_losses(lm, zip(inputs, wanted, strict=True))
    means = [
        nats[weight].mean() if weight.any() else 0.0
        for nats, weight in zip(found, weights, strict=True)
    ]
    expected = np.reshape(means, (-1, steps_per_epoch)).mean(axis=1)
    narrow = lm.compute_dtype != "float32"
    tolerance = tolerances.BFLOAT16 if narrow else tolerances.FLOAT32
    assert_close(own, expected, tolerance, "losses")
    memory = lm.initial_memory(ROWS)
    for segment in inputs:
        _, memory = lm.step(segment, memory)
    states, length, document = bank_of(lm, "train")
    assert (length == to_numpy(memory["length"])).all()
    assert (document == to_numpy(memory["document"])).all()
    assert length[0].tolist() == [4, 6] and document[0].tolist() == [5, 1]
    assert_close(
        states,
        to_numpy(memory["states"]).swapaxes(0, 1),
        5 * tolerance,
        "states",
    )
