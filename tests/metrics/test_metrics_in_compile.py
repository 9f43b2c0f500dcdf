"""The metrics inside `compile`, over a stream with padding."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.metrics import BitsPerCharacter
from keras_txl.metrics import Perplexity
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close


@pytest.fixture
def stream():
    ids = np.random.default_rng(1).integers(0, 9, 30)
    stream = SegmentStream([ids[:11], ids[11:]], 2, 4)
    assert any((weights == 0).any() for _, _, weights in stream)
    return stream


@pytest.fixture
def model():
    inputs = {
        name: keras.Input((4,), dtype="int32", name=name)
        for name in ("token_ids", "document_ids")
    }
    logits = keras.layers.Embedding(9, 9, "random_normal")(inputs["token_ids"])
    model = keras.Model(inputs, 20 * logits)
    model.compile(
        "sgd",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[Perplexity(), BitsPerCharacter()],
    )
    return model


def mean_loss(model, stream):
    """Nats per target, from the table of logits, one target at a time."""
    (table,) = model.get_weights()
    nats, count = 0.0, 0
    for inputs, targets, weights in stream:
        for place in np.argwhere(weights > 0):
            row = 20 * table[inputs["token_ids"][tuple(place)]]
            nats += np.log(np.exp(row.astype("float64")).sum())
            nats -= row[targets[tuple(place)]]
            count += 1
    assert count == stream.num_targets
    return nats / count


def test_evaluate_gives_the_figures_of_the_whole_stream(model, stream):
    expected = mean_loss(model, stream)
    logs = model.evaluate(stream, verbose=0, return_dict=True)
    assert_close(logs["perplexity"], np.exp(expected), FLOAT32, "perplexity")
    bits = expected / np.log(2)
    assert_close(logs["bits_per_character"], bits, FLOAT32, "bits")
    again = model.evaluate(stream, verbose=0, return_dict=True)
    assert again == logs


def test_fit_logs_both_figures_for_training_and_validation(model, stream):
    history = model.fit(
        stream,
        validation_data=SegmentStream(np.arange(9), 2, 4),
        shuffle=False,
        epochs=2,
        verbose=0,
    ).history
    for name in ("perplexity", "bits_per_character"):
        assert np.isfinite(history[name] + history[f"val_{name}"]).all()
    assert_close(
        np.log2(history["perplexity"]),
        history["bits_per_character"],
        FLOAT32,
        "log2 of the perplexity",
    )


def test_callbacks_know_that_lower_is_better(model, stream):
    stop = keras.callbacks.EarlyStopping("perplexity", patience=0)
    model.fit(stream, epochs=2, shuffle=False, verbose=0, callbacks=[stop])
    assert stop.monitor_op(1.0, 2.0)
    assert not stop.monitor_op(2.0, 1.0)
