"""Shapes, dtypes, configuration and errors of the adaptive layers."""

import keras
import numpy as np
import pytest

from keras_txl.layers import AdaptiveEmbedding
from keras_txl.layers import AdaptiveSoftmax
from tests.tolerances import EXACT
from tests.tolerances import assert_close


def make(**changes):
    return AdaptiveEmbedding(
        **{
            "vocabulary_size": 12,
            "embedding_dim": 8,
            "hidden_dim": 4,
            "cutoffs": [3, 6],
            "div_val": 2,
            **changes,
        }
    )


def test_bins_cover_the_vocabulary_and_narrow():
    embedding = make()
    embedding.build()
    assert embedding.bins == [(0, 3), (3, 6), (6, 12)]
    assert [tuple(t.shape) for t in embedding.tables] == [
        (3, 8),
        (3, 4),
        (6, 2),
    ]
    assert [tuple(p.shape) for p in embedding.projections] == [
        (8, 4),
        (4, 4),
        (2, 4),
    ]


def test_equal_widths_need_one_table_and_no_projection():
    embedding = make(div_val=1, embedding_dim=4)
    embedding.build()
    assert [tuple(t.shape) for t in embedding.tables] == [(12, 4)]
    assert embedding.projections == []


def test_softmax_owns_what_is_not_tied():
    own = {
        None: {"projection_0"},
        True: set(),
        False: {"projection_0", "projection_1", "projection_2"},
    }
    for tie_projections, names in own.items():
        softmax = AdaptiveSoftmax(make(), tie_projections=tie_projections)
        softmax.build((None, None, 4))
        found = {v.name for v in softmax.trainable_variables}
        shared = {v.name for v in softmax.embedding.trainable_variables}
        mine = {
            v.name
            for v in softmax.trainable_variables
            if all(v is not w for w in softmax.embedding.trainable_variables)
        }
        assert mine == names | {"cluster_kernel", "cluster_bias", "bias"}
        assert found == mine | shared


def test_symbolic_calls_know_shapes_and_dtypes():
    ids = keras.Input((None,), dtype="int32")
    embedding = make(dtype="mixed_bfloat16")
    hidden = embedding(ids)
    assert hidden.shape == (None, None, 4)
    assert hidden.dtype == "bfloat16"
    softmax = AdaptiveSoftmax(embedding, dtype="mixed_bfloat16")
    assert softmax(hidden, deferred=True).shape == (None, None, 4)
    assert softmax(hidden, ids).shape == (None, None)
    log_probs = softmax(hidden)
    assert log_probs.shape == (None, None, 12)
    assert log_probs.dtype == "float32"


def test_layers_come_back_from_their_configuration():
    softmax = AdaptiveSoftmax(
        make(), tie_projections=[True, False, True], chunk=5
    )
    again = AdaptiveSoftmax.from_config(softmax.get_config())
    assert again.get_config() == softmax.get_config()


def test_a_saved_model_keeps_what_is_tied(tmp_path):
    ids = keras.Input((None,), dtype="int32")
    embedding = make()
    outputs = AdaptiveSoftmax(embedding)(embedding(ids))
    model = keras.Model(ids, outputs)
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert len(restored.weights) == len(model.weights)
    inputs = np.arange(12)[None]
    assert_close(restored(inputs), model(inputs), EXACT, "outputs")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cutoffs": []}, "cutoffs=None"),
        ({"cutoffs": [6, 3]}, "ascending"),
        ({"cutoffs": [3, 3]}, "ascending"),
        ({"cutoffs": [0, 3]}, "inside"),
        ({"cutoffs": [3, 12]}, "without the size of the vocabulary"),
        ({"cutoffs": [1.5]}, "integers"),
        ({"cutoffs": 3}, "cutoffs=3"),
        ({"div_val": 3}, "embedding_dim=9 or more"),
        ({"div_val": 0}, "`div_val`"),
    ],
)
def test_bins_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize("tie_projections", [[True], "first", [1, 0, 1]])
def test_ties_need_one_bool_for_each_bin(tie_projections):
    with pytest.raises(ValueError, match="each of the 3 bins"):
        AdaptiveSoftmax(make(), tie_projections=tie_projections)
