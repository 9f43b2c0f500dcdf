"""What must hold of the whole model, whatever its sizes and weights."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from keras import ops

from tests import tolerances
from tests.oracles.gradients import compiled
from tests.oracles.gradients import gradient_at
from tests.oracles.gradients import gradients_of
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

LENGTH = 8  # tokens of the uncut text
MEMORY = 11  # covers the text

# Few variants and lengths: every new one compiles anew on JAX.
VARIANTS = st.sampled_from(
    [
        {},
        {"normalize_first": True, "embedding_dim": 5, "num_heads": 1},
        {"share_attention_biases": False, "head_dim": 3, "clamp_length": 3},
        {
            "attention_window": 4,
            "attention_logit_cap": 0.7,
            "memory_layer_norm": True,
        },
    ]
).map(lambda variant: tuple(sorted(variant.items())))

SEEDS = st.integers(0, 2**16)

FEW = settings(max_examples=12)  # a model is slow to call eagerly


@functools.lru_cache(maxsize=None)
def backbone_of(variant, memory_length=MEMORY):
    from keras_txl.models import TransformerXLBackbone

    backbone = TransformerXLBackbone(
        **{
            "vocabulary_size": 11,
            "num_layers": 2,
            "num_heads": 2,
            "hidden_dim": 8,
            "intermediate_dim": 12,
            "memory_length": memory_length,
            "dropout": 0.0,
            **dict(variant),
        }
    )
    randomize(backbone, seed=3)
    return backbone


@functools.lru_cache(maxsize=None)
def run_of(variant):
    return compiled(backbone_of(variant).call_with_memory)


def tolerance_of(variant):
    first = dict(variant).get("normalize_first", False)
    return tolerances.PRE_NORM_STATES if first else tolerances.FLOAT32


def draw_ids(seed, batch_size=2, length=LENGTH):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 11, size=(batch_size, length)).astype("int32")


def fresh(batch_size=2, memory_length=MEMORY, hidden_dim=8):
    return {
        "states": np.zeros(
            (batch_size, 2, memory_length, hidden_dim), "float32"
        ),
        "length": np.zeros(batch_size, "int32"),
        "document": np.full(batch_size, -1, "int32"),
    }


def filled(seed, batch_size=2, memory_length=MEMORY, document=0):
    rng = np.random.default_rng(seed)
    shape = (batch_size, 2, memory_length, 8)
    length = rng.integers(1, memory_length + 1, size=batch_size)
    states = rng.normal(size=shape).astype("float32")
    for row, valid in enumerate(length):
        states[row, :, : memory_length - valid] = 0
    return {
        "states": states,
        "length": length.astype("int32"),
        "document": np.full(batch_size, document, "int32"),
    }


def assert_same_memory(actual, expected, tolerance, what):
    assert to_numpy(actual["length"]).tolist() == (
        to_numpy(expected["length"]).tolist()
    )
    assert to_numpy(actual["document"]).tolist() == (
        to_numpy(expected["document"]).tolist()
    )
    assert_close(actual["states"], expected["states"], tolerance, what)


@FEW
@given(variant=VARIANTS, seed=SEEDS, cut=st.sampled_from([2, 6]))
def test_memory_equals_one_long_segment_at_every_layer(variant, seed, cut):
    run = run_of(variant)
    ids = draw_ids(seed)
    whole, whole_memory = run(ids, fresh())
    first, memory = run(ids[:, :cut], fresh())
    second, memory = run(ids[:, cut:], memory)
    tolerance = tolerance_of(variant)
    assert_close(
        np.concatenate([to_numpy(first), to_numpy(second)], axis=1),
        whole,
        tolerance,
        "output",
    )
    # The states of memory are what each layer received at each token.
    assert to_numpy(memory["length"]).tolist() == [LENGTH, LENGTH]
    assert_same_memory(memory, whole_memory, tolerance, "layer inputs")


@FEW
@given(
    variant=VARIANTS,
    seed=SEEDS,
    place=st.integers(0, LENGTH - 1),
    shift=st.integers(1, 10),
)
def test_later_tokens_change_nothing_earlier(variant, seed, place, shift):
    run = run_of(variant)
    ids = draw_ids(seed)
    other = ids.copy()
    other[:, place:] = (other[:, place:] + shift) % 11
    memory = filled(seed)
    hidden, _ = run(ids, memory)
    changed, _ = run(other, memory)
    assert_close(
        to_numpy(changed)[:, :place],
        to_numpy(hidden)[:, :place],
        tolerances.EXACT,
        "outputs before the change",
    )
    difference = np.abs(to_numpy(changed) - to_numpy(hidden))[:, place]
    assert difference.max() > 0


@pytest.mark.parametrize("normalize_first", [False, True])
def test_no_gradient_reaches_memory(normalize_first):
    backbone = backbone_of((("normalize_first", normalize_first),))
    ids = draw_ids(5)
    memory = filled(5)

    def loss(states):
        hidden, new = backbone.call_with_memory(
            ids, {**memory, "states": states}, training=True
        )
        return ops.sum(hidden**2) + ops.sum(new["states"] ** 2)

    gradient = gradient_at(loss, memory["states"])
    assert_close(
        gradient,
        np.zeros_like(gradient),
        tolerances.EXACT,
        "gradient with respect to memory",
    )


def test_no_gradient_leaves_through_the_new_memory():
    backbone = backbone_of(())
    table = backbone.token_embedding
    ids = draw_ids(5)

    def loss():
        hidden, new = backbone.call_with_memory(ids, fresh(), training=True)
        return ops.sum(new["states"] ** 2) + 0.0 * ops.sum(hidden)

    variable = table.trainable_variables[0]
    (gradient,) = gradients_of(loss, [variable])
    assert not gradient.any()


@FEW
@given(variant=VARIANTS, seed=SEEDS)
def test_permuting_rows_permutes_results(variant, seed):
    run = run_of(variant)
    rng = np.random.default_rng(seed)
    order = rng.permutation(3)
    ids = draw_ids(seed, batch_size=3)
    memory = filled(seed, batch_size=3)
    hidden, new = run(ids, memory)
    permuted = {key: value[order] for key, value in memory.items()}
    again, new_again = run(ids[order], permuted)
    tolerance = tolerance_of(variant)
    assert_close(again, to_numpy(hidden)[order], tolerance, "output")
    expected = {key: to_numpy(value)[order] for key, value in new.items()}
    assert_same_memory(new_again, expected, tolerance, "memory")


@FEW
@given(variant=VARIANTS, seed=SEEDS, memory_length=st.sampled_from([5, MEMORY]))
def test_a_fresh_memory_is_no_memory(variant, seed, memory_length):
    run = run_of(variant)
    ids = draw_ids(seed)
    none, _ = run(ids, fresh(memory_length=0))
    empty, _ = run(ids, fresh(memory_length=memory_length))
    assert_close(empty, none, tolerance_of(variant), "output")


@FEW
@given(seed=SEEDS)
def test_what_lies_in_empty_slots_is_never_read(seed):
    run = run_of(())
    ids = draw_ids(seed)
    memory = filled(seed)
    dirty = dict(memory, states=memory["states"].copy())
    for row, valid in enumerate(memory["length"]):
        dirty["states"][row, :, : MEMORY - valid] = 1e3
    clean, new = run(ids, memory)
    same, same_new = run(ids, dirty)
    assert_close(same, clean, tolerances.EXACT, "output")
    for row in range(2):
        valid = int(to_numpy(new["length"])[row])
        assert_close(
            to_numpy(same_new["states"])[row, :, MEMORY - valid :],
            to_numpy(new["states"])[row, :, MEMORY - valid :],
            tolerances.EXACT,
            "memory",
        )


@FEW
@given(variant=VARIANTS, seed=SEEDS)
def test_padding_in_the_middle_equals_the_row_without_it(variant, seed):
    run = run_of(variant)
    rng = np.random.default_rng(seed)
    ids = draw_ids(seed)
    memory = filled(seed)
    plain, plain_memory = run(ids, memory)
    # Each row gets its own padding; token ids there are arbitrary.
    length = LENGTH + 4
    places = [
        np.sort(rng.choice(length, size=LENGTH, replace=False))
        for _ in range(2)
    ]
    padded = rng.integers(0, 11, size=(2, length)).astype("int32")
    documents = np.full((2, length), -1, "int32")
    for row in range(2):
        padded[row, places[row]] = ids[row]
        documents[row, places[row]] = 0
    hidden, new = run({"token_ids": padded, "document_ids": documents}, memory)
    hidden = to_numpy(hidden)
    tolerance = tolerance_of(variant)
    for row in range(2):
        assert_close(
            hidden[row, places[row]],
            to_numpy(plain)[row],
            tolerance,
            "output at the tokens",
        )
        padding = documents[row] == -1
        assert not hidden[row, padding].any()
    assert_same_memory(new, plain_memory, tolerance, "memory")


@FEW
@given(variant=VARIANTS, seed=SEEDS, border=st.sampled_from([0, 2]))
def test_a_document_does_not_see_the_one_before(variant, seed, border):
    run = run_of(variant)
    ids = draw_ids(seed)
    memory = filled(seed, document=4)
    documents = np.full((2, LENGTH), 4, "int32")
    documents[:, border:] = 5
    hidden, new = run({"token_ids": ids, "document_ids": documents}, memory)
    alone, alone_memory = run(
        {
            "token_ids": ids[:, border:],
            "document_ids": documents[:, border:],
        },
        fresh(),
    )
    tolerance = tolerance_of(variant)
    assert_close(to_numpy(hidden)[:, border:], alone, tolerance, "output")
    assert_same_memory(new, alone_memory, tolerance, "memory")


@FEW
@given(seed=SEEDS)
def test_a_row_of_padding_keeps_its_memory(seed):
    run = run_of(())
    memory = filled(seed)
    documents = np.zeros((2, LENGTH), "int32")
    documents[1] = -1
    hidden, new = run(
        {"token_ids": draw_ids(seed), "document_ids": documents}, memory
    )
    assert not to_numpy(hidden)[1].any()
    for key in ("states", "length", "document"):
        assert_close(
            to_numpy(new[key])[1],
            memory[key][1],
            tolerances.EXACT,
            f"{key} of the row of padding",
        )


def test_outputs_depend_on_memory():
    run = run_of(())
    ids = draw_ids(0)
    with_memory, _ = run(ids, filled(0))
    without, _ = run(ids, fresh())
    difference = to_numpy(with_memory) - to_numpy(without)
    assert np.abs(difference).max(axis=(1, 2)).min() > 1e-2
