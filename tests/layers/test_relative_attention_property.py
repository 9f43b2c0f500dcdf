"""What must hold of scores and attention at any size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests import tolerances
from tests.layers.test_relative_attention_oracle import assert_scores
from tests.layers.test_relative_attention_oracle import draw_pieces
from tests.layers.test_relative_attention_oracle import expected_scores
from tests.layers.test_relative_attention_oracle import joined_scores
from tests.oracles import attention_oracle
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

# Few sizes: every new one compiles anew on JAX.
SIZES = st.sampled_from(
    [
        (1, 1, 0, 1, 1),
        (2, 3, 4, 2, 3),
        (1, 5, 0, 3, 2),
        (2, 2, 6, 1, 4),
        (3, 6, 1, 2, 1),
    ]
)
SEEDS = st.integers(0, 2**16)


@given(sizes=SIZES, seed=SEEDS)
def test_scores_of_any_size_are_the_four_terms(sizes, seed):
    pieces = draw_pieces(sizes, seed)
    scores = joined_scores(pieces)
    assert_scores(scores, expected_scores(pieces), f"scores of {sizes}")


@given(sizes=SIZES, seed=SEEDS)
def test_shift_of_any_size_is_a_move_and_changes_no_value(sizes, seed):
    from keras_txl.layers.relative_shift import relative_shift

    batch, segment, memory, heads, _ = sizes
    shape = (batch, heads, segment, memory + segment)
    scores = np.random.default_rng(seed).normal(size=shape).astype("float32")
    expected = attention_oracle.relative_shift(scores)
    past = np.isfinite(expected)
    assert_close(
        to_numpy(relative_shift(scores))[past],
        expected[past],
        tolerances.EXACT,
        f"shift of {sizes}",
    )


@given(sizes=SIZES, seed=SEEDS, longer=st.sampled_from([1, 3]))
def test_more_memory_in_front_changes_no_score(sizes, seed, longer):
    batch, segment, memory, heads, width = sizes
    pieces = draw_pieces((batch, segment, memory + longer, heads, width), seed)
    scores = joined_scores(pieces)
    pieces["key"] = pieces["key"][:, longer:]
    # Distances count from the newest key, which stands last.
    pieces["relative_key"] = pieces["relative_key"][longer:]
    shorter = joined_scores(pieces)
    past = np.tril(np.ones((segment, memory + segment), bool), k=memory)
    assert_close(
        scores[..., longer:][..., past],
        shorter[..., past],
        tolerances.FLOAT32,
        f"scores of {sizes}",
    )


@given(
    sizes=SIZES,
    seed=SEEDS,
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_weights_sum_to_one_and_hidden_keys_get_exactly_zero(
    sizes, seed, dtype
):
    import keras
    from keras import ops

    from keras_txl.layers.attention_softmax import masked_softmax

    batch, segment, memory, heads, _ = sizes
    rng = np.random.default_rng(seed)
    shape = (batch, heads, segment, memory + segment)
    scores = ops.cast(rng.normal(0, 5, size=shape), dtype)
    mask = rng.random(size=(batch, 1, *shape[2:])) < 0.5
    mask[..., 0] = True
    weights = masked_softmax(scores, mask)
    assert keras.backend.standardize_dtype(weights.dtype) == dtype
    values = to_numpy(ops.cast(weights, "float32"))
    assert not values[~np.broadcast_to(mask, shape)].any()
    low = 0 if dtype == "float32" else 2e-2
    assert_close(
        values.sum(axis=-1),
        np.ones(shape[:-1]),
        tolerances.FLOAT32 + low,
        "sum of weights",
    )
