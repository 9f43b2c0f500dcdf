"""The loss that keeps heads apart, as `fit` adds it."""

import keras
import numpy as np
import pytest
from keras import ops

from tests import tolerances
from tests.layers.test_head_similarity_oracle import mean_cosine
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

WEIGHT = 0.5
IDS = np.random.default_rng(4).integers(0, 17, (2, 6)).astype("int32")
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1], [0, -1, 0, 2, -1, -1]], "int32")
TARGETS = IDS[::-1].copy()
COUNTS = (DOCUMENTS >= 0).astype("float32")


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(head_diversity=WEIGHT)
    lm.compile(optimizer=keras.optimizers.SGD(0.0))
    randomize(lm, seed=7)
    return lm


def inputs(token_ids=IDS):
    return {"token_ids": token_ids, "document_ids": DOCUMENTS}


def trained(lm, token_ids=IDS):
    lm.reset_memory()
    history = lm.fit(
        inputs(token_ids), TARGETS, sample_weight=COUNTS, verbose=0
    ).history
    return history["loss"][0], history["perplexity"][0]


def similarities(lm, monkeypatch):
    """Of the heads of each layer, over the tokens that are no padding."""
    valid = np.sort(DOCUMENTS < 0, axis=1) == 0  # the model packs tokens
    heads = []
    call = keras.layers.EinsumDense.call

    def recorded(layer, x, *args, **kwargs):
        if layer.name == "output":
            # All rows stand as one there.
            heads.append(to_numpy(x).reshape(*valid.shape, *x.shape[2:]))
        return call(layer, x, *args, **kwargs)

    monkeypatch.setattr(keras.layers.EinsumDense, "call", recorded)
    lm.backbone.call_with_memory(inputs(), lm.initial_memory(2))
    return [mean_cosine(each, valid) for each in heads]


def test_training_adds_the_similarity_and_metrics_do_not(lm, monkeypatch):
    loss, perplexity = trained(lm)
    plain = lm.evaluate(inputs(), TARGETS, verbose=0, return_dict=True)
    found = similarities(lm, monkeypatch)
    assert len(found) == 2 and min(found) > 0.1
    assert_close(
        loss - plain["loss"],
        WEIGHT * np.mean(found),
        tolerances.FLOAT32,
        "added loss",
    )
    assert_close(
        np.log(perplexity), plain["loss"], tolerances.FLOAT32, "perplexity"
    )


def test_padding_may_hold_any_token(lm):
    other = np.where(DOCUMENTS < 0, 16 - IDS, IDS)
    assert (other != IDS).any()
    assert trained(lm, other) == trained(lm)


def test_training_on_it_alone_makes_heads_less_alike(make_lm):
    lm = make_lm(num_layers=1, head_diversity=1.0, memory_length=0)
    randomize(lm, seed=7)
    lm.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=lambda targets, logits: 0.0 * ops.mean(logits),
    )
    history = lm.fit(inputs(), TARGETS, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0] - 0.05


@pytest.mark.parametrize("weight", [-0.1, True, "1", float("nan")])
def test_a_weight_below_0_is_refused(make_lm, weight):
    with pytest.raises(ValueError, match="`head_diversity` must be 0 or"):
        make_lm(head_diversity=weight)
