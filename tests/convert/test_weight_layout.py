"""Weights that do not fit: one error that lists them all."""

import keras
import numpy as np
import pytest

from keras_txl.convert.weight_layout import Rows
from keras_txl.convert.weight_layout import as_is
from keras_txl.convert.weight_layout import assign_weights
from tests.tolerances import to_numpy


def message_of(source, weights):
    with pytest.raises(ValueError, match="must be those of") as error:
        source.convert(weights=weights)
    return str(error.value)


@pytest.mark.parametrize("name", ["kim_default", "hf_default"])
def test_every_weight_that_does_not_fit_is_listed(name, checkpoint):
    source = checkpoint(name)
    weights = dict(source.weights)
    prefix = "" if source.is_original else "transformer."
    missing = f"{prefix}layers.1.dec_attn.r_net.weight"
    misshapen = f"{prefix}layers.0.pos_ff.CoreNet.0.weight"
    bias = "crit.out_layers.0.bias"
    del weights[missing]
    weights[misshapen] = np.zeros((7, 16), "float32")
    weights[bias] = np.zeros(59, "float32")
    weights["layers.9.extra"] = np.zeros((2, 3), "float32")
    message = message_of(source, weights)
    assert "with 4 that do not fit" in message
    assert f"missing: {missing}, expected (16, 16), found none" in message
    assert (
        f"misshapen: {misshapen}, expected (32, 16), found (7, 16)" in message
    )
    assert f"misshapen: {bias}, expected (60,), found (59,)" in message
    assert "unexpected: layers.9.extra, expected none, found (2, 3)" in message
    assert "Check `config`" in message


@pytest.mark.parametrize(
    "left_out", ["word_emb.emb_layers.0.weight", "crit.out_layers.0.weight"]
)
def test_one_name_of_a_tied_array_suffices(left_out, checkpoint):
    """Safe formats store shared memory under one name, whichever it is."""
    source = checkpoint("kim_default")
    weights = dict(source.weights)
    table = weights.pop(left_out)
    lm = source.convert(weights=weights)
    assert np.array_equal(
        to_numpy(lm.backbone.token_embedding.embeddings), table
    )


def test_both_names_missing_are_named_together(checkpoint):
    source = checkpoint("kim_default")
    weights = dict(source.weights)
    del weights["word_emb.emb_layers.0.weight"]
    del weights["crit.out_layers.0.weight"]
    assert (
        "missing: word_emb.emb_layers.0.weight or crit.out_layers.0.weight, "
        "expected (60, 16)"
    ) in message_of(source, weights)


def test_tied_arrays_that_differ_are_no_tied_arrays(checkpoint):
    source = checkpoint("kim_default")
    weights = dict(source.weights)
    weights["crit.out_layers.0.weight"] = (
        weights["crit.out_layers.0.weight"] + 1e-3
    )
    assert "unequal: crit.out_layers.0.weight (60, 16)" in message_of(
        source, weights
    )


def test_untied_weights_under_a_tied_configuration_are_refused(checkpoint):
    source = checkpoint("kim_untied_proj")
    config = {**source.config, "tie_weight": True, "tie_projs": [True]}
    with pytest.raises(ValueError, match="unequal: crit.out_projs.0"):
        source.convert(config)


def test_other_sinusoids_are_refused(checkpoint):
    source = checkpoint("kim_default")
    weights = dict(source.weights)
    weights["pos_emb.inv_freq"] = weights["pos_emb.inv_freq"] * 1.001
    assert "unequal: pos_emb.inv_freq (8,) differs from the configuration" in (
        message_of(source, weights)
    )


def test_sinusoids_may_be_left_out(checkpoint):
    source = checkpoint("kim_default")
    weights = dict(source.weights)
    del weights["pos_emb.inv_freq"]
    source.convert(weights=weights)


def test_nothing_is_assigned_when_something_does_not_fit(checkpoint, make_lm):
    lm = make_lm()
    before = [to_numpy(weight) for weight in lm.trainable_weights]
    table = [
        as_is([str(index)], weight)
        for index, weight in enumerate(lm.trainable_weights)
    ]
    arrays = {
        str(index): np.ones(weight.shape)
        for index, weight in enumerate(lm.trainable_weights)
    }
    arrays["1"] = np.ones((1, 1, 1))
    with pytest.raises(ValueError, match="misshapen: 1,"):
        assign_weights(lm, table, arrays, "a test")
    for old, weight in zip(before, lm.trainable_weights, strict=True):
        assert np.array_equal(old, to_numpy(weight))


def test_a_weight_without_a_name_is_an_error(make_lm):
    lm = make_lm()
    table = [
        as_is([str(index)], weight)
        for index, weight in enumerate(lm.trainable_weights[1:])
    ]
    with pytest.raises(
        NotImplementedError, match="no names for: token_embedding"
    ):
        assign_weights(lm, table, {}, "a test")


def test_a_weight_with_two_names_is_an_error(make_lm):
    lm = make_lm()
    weights = [*lm.trainable_weights, lm.trainable_weights[0]]
    table = [as_is([str(n)], weight) for n, weight in enumerate(weights)]
    with pytest.raises(NotImplementedError, match="none, but some have two"):
        assign_weights(lm, table, {}, "a test")


def test_rows_are_assigned_alone():
    variable = keras.Variable(np.arange(12.0).reshape(4, 3))
    rows = Rows(variable, 1, 3)
    assert rows.shape == (2, 3)
    rows.assign(np.full((2, 3), -1.0))
    expected = [[0, 1, 2], [-1] * 3, [-1] * 3, [9, 10, 11]]
    assert to_numpy(variable).tolist() == expected
