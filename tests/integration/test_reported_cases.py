"""Faults that users of other implementations reported, one test each."""

import keras
import numpy as np
import pytest
from keras import ops

from tests import tolerances
from tests.oracles.attention_oracle import distance_encoding
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import run_model
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

LOW = [
    "bfloat16",
    "mixed_bfloat16",
    # XLA on the CPU has no float16 matrix product for every shape.
    pytest.param("float16", marks=pytest.mark.backend("tensorflow", "torch")),
    pytest.param(
        "mixed_float16", marks=pytest.mark.backend("tensorflow", "torch")
    ),
]


# === What memory holds ===
def test_memory_is_the_tail_of_the_history_whatever_the_segment_lengths():
    from keras_txl.layers.segment_memory import advance
    from keras_txl.layers.segment_memory import join_memory
    from keras_txl.layers.segment_memory import update_memory

    slots = 6
    states = ops.zeros((1, slots, 1))
    length = ops.zeros((1,), dtype="int32")
    document = ops.full((1,), -1, dtype="int32")
    seen = 0
    # Lengths above, below and equal to M, the first with an empty memory.
    for segment_length in (8, 8, 1, 3, 6, 2):
        rows = np.arange(seen, seen + segment_length, dtype="float32")
        hidden = ops.convert_to_tensor(rows[None, :, None])
        documents = ops.zeros((1, segment_length), dtype="int32")
        count, length, document = advance(length, document, documents, slots)
        states = update_memory(
            join_memory(states, hidden), count, length, slots
        )
        seen += segment_length
        assert to_numpy(states)[0, :, 0].tolist() == list(
            range(seen - slots, seen)
        )


def test_extended_context_is_refused():
    from keras_txl.convert import from_original_pytorch

    config = {
        "n_token": 7,
        "n_layer": 1,
        "n_head": 1,
        "d_model": 4,
        "d_head": 4,
        "d_inner": 4,
        "dropout": 0.0,
        "dropatt": 0.0,
        "tgt_len": 5,
        "ext_len": 3,
        "mem_len": 6,
    }
    with pytest.raises(ValueError, match="`ext_len` must be 0"):
        from_original_pytorch(config, {})


@pytest.mark.parametrize(
    "position",
    [
        "relative_sinusoidal",
        "relative_learned",
        "absolute_sinusoidal",
        "absolute_learned",
    ],
)
def test_positions_are_not_added_to_memory_again_and_again(make_lm, position):
    """attn_type 0 to 3 of the original, at the first step and the 30th."""
    learned = position.endswith("learned")
    lm = make_lm(
        position=position, memory_length=5, max_distance=7 if learned else None
    )
    randomize(lm, seed=3)
    weights = oracle_weights(lm)
    config = OracleConfig(num_layers=2, position=position)
    memory = lm.initial_memory(1)
    expected = {key: to_numpy(value) for key, value in memory.items()}
    stream = np.random.default_rng(3).integers(0, 17, (30, 1, 2))
    for number, token_ids in enumerate(stream.astype("int32")):
        _, memory = lm.step(token_ids, memory)
        result = run_model(config, weights, token_ids, None, expected)
        expected = result.memory
        assert_close(
            memory["states"],
            expected["states"],
            tolerances.FLOAT32,
            f"memory after segment {number}",
        )
    embedded = weights["embedding"][stream[-2:].ravel()] * np.sqrt(8)
    assert_close(
        to_numpy(memory["states"])[0, 0, -4:],
        embedded,
        tolerances.FLOAT32,
        "memory of the first layer: embeddings alone",
    )


# === What a query sees ===
@pytest.mark.parametrize(
    "window, length, counts",
    [
        ("memory_length+1", 6, [7, 7, 7, 7]),
        ("memory_length+1", 3, [4, 5, 6, 7]),
        ("memory_length+1", 0, [1, 2, 3, 4]),
        ("memory_length", 6, [6, 6, 6, 6]),
        ("memory_length", 3, [4, 5, 6, 6]),
        ("memory_length", 0, [1, 2, 3, 4]),
    ],
)
def test_same_length_shows_the_stated_number_of_keys(window, length, counts):
    from keras_txl.layers.attention_mask import SegmentAttentionMask

    mask = SegmentAttentionMask(window)(
        ops.zeros((1, 6 + 4, 2)),
        ops.zeros((1, 4), dtype="int32"),
        ops.full((1,), length, dtype="int32"),
    )
    assert to_numpy(mask)[0, 0].sum(axis=-1).tolist() == counts


# === Empty memory ===
def losses_with_slots(lm, inputs, slots, fill=0.0, run=None):
    memory = lm.initial_memory(2, memory_length=slots)
    states = to_numpy(memory["states"]) + np.float32(fill)
    memory = {**memory, "states": ops.convert_to_tensor(states)}
    token_ids, targets = inputs
    return to_numpy((run or lm.token_losses)(token_ids, targets, memory)[0])


def compiled_by_xla(lm):
    import tensorflow as tf

    return tf.function(lm.token_losses, jit_compile=True, autograph=False)


@pytest.fixture(scope="module")
def segment():
    rng = np.random.default_rng(4)
    return rng.integers(0, 17, (2, 2, 5)).astype("int32")


@pytest.mark.parametrize(
    "compiled",
    [
        "eager",
        pytest.param("graph", marks=pytest.mark.backend("tensorflow", "jax")),
        pytest.param("xla", marks=pytest.mark.backend("tensorflow")),
    ],
)
def test_no_memory_equals_an_empty_memory_of_any_length(
    compiled, make_lm, segment
):
    """To the last bit: docs/decisions/0007-empty-memory.md."""
    lm = make_lm()
    lm.run_eagerly = compiled == "eager"
    randomize(lm, seed=4)
    run = compiled_by_xla(lm) if compiled == "xla" else None
    expected = losses_with_slots(lm, segment, 0, run=run)
    for slots in (1, 6, 17, 0):
        found = losses_with_slots(lm, segment, slots, run=run)
        assert_close(found, expected, tolerances.EXACT, f"{slots} empty slots")


@pytest.mark.parametrize(
    "arguments",
    [
        {"position": "relative_learned", "max_distance": 4},
        {"position": "relative_clipped", "max_distance": 4},
        {"position": "absolute_sinusoidal"},
        {"position": "absolute_learned", "max_distance": 20},
        {"position": "none"},
        {"cutoffs": [5, 9], "normalize_first": True, "clamp_length": 3},
    ],
)
def test_no_memory_equals_an_empty_one_in_every_position(
    arguments, make_lm, segment
):
    lm = make_lm(**arguments)
    lm.run_eagerly = True
    randomize(lm, seed=4)
    expected = losses_with_slots(lm, segment, 0)
    for slots in (1, 17):
        found = losses_with_slots(lm, segment, slots)
        assert_close(found, expected, tolerances.EXACT, f"{slots} empty slots")


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_what_stands_in_empty_slots_changes_no_bit(
    run_eagerly, make_lm, segment
):
    lm = make_lm()
    lm.run_eagerly = run_eagerly
    randomize(lm, seed=4)
    for slots in (1, 6, 17):
        expected = losses_with_slots(lm, segment, slots)
        for fill in (100.0, -1e30, np.nan):
            found = losses_with_slots(lm, segment, slots, fill=fill)
            assert_close(found, expected, tolerances.EXACT, f"{fill}")


def test_zeros_that_are_attended_are_another_function(make_lm, segment):
    lm = make_lm(attend_empty_memory=True)
    randomize(lm, seed=4)
    alone = losses_with_slots(lm, segment, 0)
    attended = losses_with_slots(lm, segment, 6)
    assert np.abs(attended - alone).max() > 0.01


# === Scores do not depend on what was scored before ===
def test_a_sentence_scores_the_same_alone_and_after_fifty_others(make_lm):
    lm = make_lm()
    randomize(lm, seed=6)
    rng = np.random.default_rng(6)
    sentence = rng.integers(0, 17, 6).astype("int32")
    alone = sentence_losses(lm, sentence, lm.initial_memory(2))

    memory = lm.initial_memory(2)
    for number in range(50):
        others = rng.integers(0, 17, (2, 5)).astype("int32")
        documents = np.full((2, 5), 0, "int32")
        documents[1] = number
        _, memory = lm.step(
            {"token_ids": others, "document_ids": documents}, memory
        )
    # Row 0 goes on with its document, row 1 starts a new one.
    assert to_numpy(memory["length"]).tolist() == [6, 5]
    after = sentence_losses(lm, sentence, memory)
    assert_close(
        after, alone, tolerances.REORDERED, "losses after fifty others"
    )


def sentence_losses(lm, sentence, memory):
    """Losses of a sentence in row 1, a new document; row 0 goes on."""
    token_ids = np.stack([np.arange(5), sentence[:-1]]).astype("int32")
    documents = np.stack([np.zeros(5), np.full(5, 77)]).astype("int32")
    losses, _ = lm.token_losses(
        {"token_ids": token_ids, "document_ids": documents},
        np.stack([np.arange(1, 6), sentence[1:]]).astype("int32"),
        memory,
    )
    return to_numpy(losses)[1]


def test_a_row_that_resets_scores_the_same_beside_one_that_does_not(make_lm):
    """The same by `reset_memory`, with memory carried by the model."""
    lm = make_lm()
    randomize(lm, seed=6)
    rng = np.random.default_rng(6)
    sentence = rng.integers(0, 17, (1, 5)).astype("int32")
    others = rng.integers(0, 17, (2, 5)).astype("int32")
    alone = to_numpy(lm(sentence))[0]
    lm.reset_memory()
    lm(others)
    lm.reset_memory(bank="eval", rows=[1])
    both = to_numpy(lm(np.concatenate([others[:1], sentence])))
    assert_close(both[1], alone, tolerances.REORDERED, "row 1, reset")
    assert np.abs(both[0] - to_numpy(lm(others))[0]).max() > 1e-3


# === Low precision ===
@pytest.mark.parametrize("policy", LOW)
def test_positions_are_those_of_float32_up_to_3928(policy):
    from keras_txl.layers import SinusoidalDistanceEncoding

    context = ops.zeros((1, 3928, 1))
    table = SinusoidalDistanceEncoding(16, dtype=policy)(context)
    wide = SinusoidalDistanceEncoding(16, dtype="float32")(context)
    narrow = keras.dtype_policies.get(policy).compute_dtype
    assert keras.backend.standardize_dtype(table.dtype) == narrow
    table = to_numpy(ops.cast(table, "float32"))
    assert_close(
        table,
        ops.cast(ops.cast(wide, narrow), "float32"),
        tolerances.EXACT,
        "table",
    )
    # Angles of thousands carry the error of float32, sines that of `policy`.
    half_a_step = {"bfloat16": 2.0**-9, "float16": 2.0**-12}[narrow]
    expected = distance_encoding(range(3927, -1, -1), 16)
    assert_close(table, expected, half_a_step + 3e-4, "table")


@pytest.mark.parametrize("policy", LOW)
def test_padded_rows_stay_finite_and_losses_close_to_float32(make_lm, policy):
    arguments = {"memory_length": 12, "num_heads": 2, "hidden_dim": 16}
    wide, narrow = make_lm(**arguments), make_lm(dtype=policy, **arguments)
    randomize(wide, seed=8, scale=0.1)
    for old, new in zip(
        wide.trainable_variables, narrow.trainable_variables, strict=True
    ):
        new.assign(ops.cast(old, new.dtype))
    rng = np.random.default_rng(8)
    memories = [lm.initial_memory(3) for lm in (wide, narrow)]
    for number in range(3):
        token_ids, targets = rng.integers(0, 17, (2, 3, 8)).astype("int32")
        documents = np.zeros((3, 8), "int32")
        documents[1] = -1  # sees nothing at all
        documents[2, number:4] = -1
        inputs = {"token_ids": token_ids, "document_ids": documents}
        losses = []
        for index, lm in enumerate((wide, narrow)):
            loss, memories[index] = lm.token_losses(
                inputs, targets, memories[index]
            )
            states = to_numpy(ops.cast(memories[index]["states"], "float32"))
            assert np.isfinite(to_numpy(loss)).all()
            assert np.isfinite(states).all()
            losses.append(to_numpy(loss))
        expected, found = losses
        assert found[1].tolist() == [0.0] * 8
        valid = documents >= 0
        assert_close(
            found[valid].mean(),
            expected[valid].mean(),
            tolerances.BFLOAT16,
            f"mean loss of segment {number}",
        )


def test_attention_that_sees_nothing_gives_zeros_in_float16():
    """Scores are hidden in float32: no infinity, no zero over zero."""
    from keras_txl.layers.attention_softmax import masked_softmax

    scores = ops.cast(np.full((1, 1, 2, 3), 6e4), "float16")
    mask = np.array([[[[True, False, True], [False] * 3]]])
    weights = to_numpy(masked_softmax(scores, ops.convert_to_tensor(mask)))
    assert np.isfinite(weights).all()
    assert weights[0, 0, 0].tolist() == [0.5, 0.0, 0.5]
