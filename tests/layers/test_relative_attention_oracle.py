"""Scores, shift and attention against loops over pairs (i, j)."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles import attention_oracle
from tests.oracles.gradients import compiled
from tests.oracles.weights import attention_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

# (batch, segment, memory, heads, head width)
SIZES = [
    (1, 1, 0, 1, 1),
    (2, 1, 5, 2, 3),
    (1, 5, 0, 3, 2),
    (2, 4, 3, 2, 4),
    (3, 3, 9, 1, 5),
    (2, 7, 2, 4, 2),
]


def draw_pieces(sizes, seed=0):
    batch, segment, memory, heads, width = sizes
    rng = np.random.default_rng(seed)
    shapes = {
        "query": (batch, segment, heads, width),
        "key": (batch, memory + segment, heads, width),
        "relative_key": (memory + segment, heads, width),
        "content_bias": (heads, width),
        "position_bias": (heads, width),
    }
    return {
        name: rng.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }


def joined_scores(pieces):
    """Scores of all keys: of memory, if there is one, and of the segment."""
    from keras_txl.layers.attention_scores import relative_attention_scores

    others = dict(pieces)
    key = others.pop("key")
    slots = key.shape[1] - pieces["query"].shape[1]
    keys = [key[:, :slots], key[:, slots:]] if slots else [key]
    scores = relative_attention_scores(keys=keys, **others)
    assert [part.shape[-1] for part in scores] == [k.shape[1] for k in keys]
    return np.concatenate([to_numpy(part) for part in scores], axis=-1)


def expected_scores(pieces):
    """The oracle takes row r of `relative_key` for distance r."""
    return np.stack(
        [
            attention_oracle.relative_attention_scores(
                query.astype("float64"),
                key.astype("float64"),
                pieces["relative_key"][::-1].astype("float64"),
                pieces["content_bias"].astype("float64"),
                pieces["position_bias"].astype("float64"),
            )
            for query, key in zip(pieces["query"], pieces["key"], strict=True)
        ]
    )


def assert_scores(scores, expected, what):
    """Only pairs that are not in the future have a meaning."""
    past = np.isfinite(expected)
    scores = to_numpy(scores)
    assert scores.shape == expected.shape, what
    assert_close(scores[past], expected[past], tolerances.FLOAT32, what)


@pytest.mark.parametrize("sizes", SIZES)
def test_scores_are_the_four_terms_of_every_pair(sizes):
    pieces = draw_pieces(sizes)
    scores = joined_scores(pieces)
    assert_scores(scores, expected_scores(pieces), f"scores of {sizes}")


@pytest.mark.parametrize("term", ["a", "b", "c", "d"])
def test_each_term_alone_has_the_right_partner(term):
    pieces = draw_pieces((2, 4, 3, 2, 4))
    silent = {
        "a": ["relative_key", "content_bias", "position_bias"],
        "b": ["key", "content_bias", "position_bias"],
        "c": ["query", "relative_key", "position_bias"],
        "d": ["query", "key", "content_bias"],
    }[term]
    for name in silent:
        pieces[name] = np.zeros_like(pieces[name])
    expected = expected_scores(pieces)
    assert np.nanmax(np.abs(expected)) > 0.1
    assert_scores(joined_scores(pieces), expected, f"term ({term})")


@pytest.mark.parametrize("sizes", SIZES)
def test_shift_moves_each_score_to_its_key(sizes):
    from keras_txl.layers.relative_shift import relative_shift

    batch, segment, memory, heads, _ = sizes
    scores = np.random.default_rng(1).normal(
        size=(batch, heads, segment, memory + segment)
    )
    scores = scores.astype("float32")
    expected = attention_oracle.relative_shift(scores)
    shifted = to_numpy(relative_shift(scores))
    past = np.isfinite(expected)
    assert shifted.shape == expected.shape
    assert_close(
        shifted[past], expected[past], tolerances.EXACT, f"shift of {sizes}"
    )


@pytest.mark.parametrize("sizes", SIZES)
def test_attention_weighs_values_by_the_softmax_of_the_scores(sizes):
    from keras_txl.layers import RelativeMultiHeadAttention

    batch, segment, memory, heads, width = sizes
    hidden_dim = 6
    layer = RelativeMultiHeadAttention(heads, head_dim=width)
    rng = np.random.default_rng(2)
    shape = (batch, memory + segment, hidden_dim)
    context = rng.normal(size=shape).astype("float32")
    layer.build((batch, segment, hidden_dim))
    randomize(layer, seed=2)
    output = compiled(layer)(context[:, memory:], context)
    expected = expected_attention(layer, context, segment)
    assert_close(output, expected, tolerances.FLOAT32, f"output of {sizes}")


def expected_attention(layer, context, segment, mask=None):
    weights = attention_weights(layer)
    batch, keys, hidden_dim = context.shape
    memory = keys - segment
    encoding = attention_oracle.distance_encoding(range(keys), hidden_dim)
    relative_key = np.einsum("rd,dnh->rnh", encoding, weights["relative_key"])
    outputs = np.zeros((batch, segment, hidden_dim))
    for row in range(batch):
        scores = attention_oracle.relative_attention_scores(
            np.einsum("td,dnh->tnh", context[row, memory:], weights["query"]),
            np.einsum("sd,dnh->snh", context[row], weights["key"]),
            relative_key,
            weights["content_bias"],
            weights["position_bias"],
        )
        value = np.einsum("sd,dnh->snh", context[row], weights["value"])
        for n in range(scores.shape[0]):
            for i in range(segment):
                seen = [
                    j
                    for j in range(memory + i + 1)
                    if mask is None or mask[row, i, j]
                ]
                if not seen:
                    continue
                mass = np.exp(scores[n, i, seen])
                head = (mass / mass.sum()) @ value[seen, n]
                outputs[row, i] += head @ weights["output"][n]
    return outputs


def test_attention_obeys_a_mask_and_gives_zeros_where_nothing_is_seen():
    from keras_txl.layers import RelativeMultiHeadAttention

    layer = RelativeMultiHeadAttention(2, head_dim=3)
    rng = np.random.default_rng(3)
    context = rng.normal(size=(2, 7, 6)).astype("float32")
    layer.build((2, 4, 6))
    randomize(layer, seed=3)
    mask = np.tril(rng.random(size=(2, 4, 7)) < 0.6, k=3)
    mask[1, 2] = False
    output = layer(context[:, 3:], context, attention_mask=mask[:, None])
    assert_close(
        output,
        expected_attention(layer, context, 4, mask),
        tolerances.FLOAT32,
        "masked output",
    )
    assert not to_numpy(output)[1, 2].any()
