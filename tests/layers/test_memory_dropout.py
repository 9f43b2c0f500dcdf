"""Whole slots of memory that a block does not get to read in training."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_txl.layers import TransformerXLBlock
from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

SLOTS, LENGTH, DIM = 3, 2, 6
RATE = 0.4


def make(**arguments):
    block = TransformerXLBlock(2, 3, 8, **arguments)
    block.build((None, None, DIM))
    randomize(block, seed=2)
    return block


def outputs_by_choice(block, context):
    """Output for every choice of dropped slots, without dropout.

    What is dropped is zero behind the norm, if there is one.
    """
    found = {}
    run = compiled(block)
    for dropped in itertools.product([False, True], repeat=SLOTS):
        factors = np.where([*dropped], 0, 1 / (1 - RATE))
        factors = np.concatenate([factors, np.ones(LENGTH)])
        found[dropped] = to_numpy(
            run(context[:, SLOTS:], context * factors[:, None].astype("f"))
        )
    return found


@pytest.fixture(scope="module")
def context():
    rng = np.random.default_rng(5)
    return rng.normal(size=(4, SLOTS + LENGTH, DIM)).astype("float32")


def test_whole_slots_are_zeros_in_training_and_others_are_scaled(context):
    expected = outputs_by_choice(make(), context)
    block = make(memory_dropout=RATE)
    assert_close(
        block(context[:, SLOTS:], context),
        to_numpy(make()(context[:, SLOTS:], context)),
        tolerances.EXACT,
        "outside training",
    )
    chosen = []
    for _ in range(12):
        output = to_numpy(block(context[:, SLOTS:], context, training=True))
        for row in range(4):
            chosen += [
                dropped
                for dropped, wanted in expected.items()
                if np.abs(output[row] - wanted[row]).max() < 1e-5
            ]
    assert len(chosen) == 48  # each row of each call is one of the choices
    assert len(set(chosen)) >= 6  # rows and calls draw their own
    assert 0.25 < np.mean(chosen) < 0.55  # about `RATE` of 144 slots


@pytest.mark.parametrize(
    "arguments", [{"normalize_first": True}, {"memory_layer_norm": True}]
)
def test_a_norm_comes_before_the_dropout(context, arguments):
    """The row of a dropped slot is zero, not the bias of the norm."""
    block = make(memory_dropout=0.999999, **arguments)
    memory = context[:, :SLOTS]
    first = block(context[:, SLOTS:], context, training=True)
    other = np.concatenate([-3 * memory, context[:, SLOTS:]], axis=1)
    second = block(context[:, SLOTS:], other, training=True)
    assert_close(second, first, tolerances.EXACT, "all slots dropped")
    keys = to_numpy(block.normalize_context(context))
    keys[:, :SLOTS] = 0
    plain = make()
    for name in ("query", "key", "value", "output", "relative_key"):
        getattr(plain.attention, f"{name}_projection").kernel.assign(
            getattr(block.attention, f"{name}_projection").kernel
        )
    for name in ("content_bias", "position_bias"):
        getattr(plain.attention.attention_biases, name).assign(
            getattr(block.attention.attention_biases, name)
        )
    query = keys if block.normalize_first else context
    attended = plain.attention(query[:, SLOTS:], keys)
    assert_close(
        first,
        block.finish(ops.convert_to_tensor(context[:, SLOTS:]), attended),
        tolerances.FLOAT32,
        "output",
    )


def test_what_memory_stores_is_not_dropped(make_lm):
    dropping, plain = (make_lm(memory_dropout=rate) for rate in (0.5, 0.0))
    for lm in (dropping, plain):
        randomize(lm, seed=3)
    ids = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    memories = []
    for lm in (dropping, plain):
        # The first layer's memory is what was embedded, call after call.
        lm(ids, training=True)
        lm(ids[::-1], training=True)
        memories.append(to_numpy(lm.segment_memories[0].bank(True)[0]))
    assert_close(*memories, tolerances.EXACT, "stored states")
    assert memories[0].all()


def test_the_norm_of_memory_is_refused_where_pre_norm_does_it(make_lm):
    with pytest.raises(ValueError, match="`memory_layer_norm` has no effect"):
        make_lm(memory_layer_norm=True, normalize_first=True)
