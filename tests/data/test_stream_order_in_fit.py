"""`fit` of a plain Keras model meets the segments in order, by every route."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.data import SegmentStream
from tests.tolerances import to_numpy

CAPACITY = 40


class Recorder(keras.layers.Layer):
    """Writes down the ids of every training batch, inside the step."""

    def build(self, tokens_shape, documents_shape):
        shape = (CAPACITY, *tokens_shape)
        self.tokens, self.documents = (
            self.add_weight(
                shape=shape,
                dtype="int32",
                initializer="zeros",
                trainable=False,
                name=name,
            )
            for name in ("tokens", "documents")
        )
        self.count = self.add_weight(
            shape=(), dtype="int32", initializer="zeros", trainable=False
        )

    def call(self, tokens, documents, training=False):
        if training:
            here = ops.arange(CAPACITY, dtype="int32") == self.count.value
            here = here[:, None, None]
            for log, ids in (
                (self.tokens, tokens),
                (self.documents, documents),
            ):
                log.assign(ops.where(here, ids[None], log.value))
            self.count.assign_add(1)
        return ops.cast(tokens, "float32")[..., None]

    def compute_output_spec(self, tokens, documents, training=False):
        return keras.KerasTensor((*tokens.shape, 1), "float32")


@pytest.fixture
def stream():
    documents = [np.arange(1, 9), np.arange(20, 25), np.arange(30, 41)]
    stream = SegmentStream(documents, batch_size=2, segment_length=2)
    assert len(stream) == 6
    return stream


@pytest.fixture
def model(stream):
    shape = (stream.batch_size, stream.segment_length)
    inputs = {
        name: keras.Input(batch_shape=shape, dtype="int32", name=name)
        for name in ("token_ids", "document_ids")
    }
    recorder = Recorder()
    hidden = recorder(inputs["token_ids"], inputs["document_ids"])
    model = keras.Model(inputs, keras.layers.Dense(50)(hidden))
    model.recorder = recorder
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
    return model


def batches_seen(model):
    """Token and document ids of the training batches, in order."""
    count = int(to_numpy(model.recorder.count))
    return tuple(
        to_numpy(log)[:count]
        for log in (model.recorder.tokens, model.recorder.documents)
    )


def assert_passes_in_order(model, stream, count):
    """Segments 0 to n - 1 over and over; each pass with new documents."""
    tokens, documents = batches_seen(model)
    assert len(tokens) == count
    shifts = []
    for step in range(count):
        expected = stream.segment(step % len(stream))[0]
        np.testing.assert_array_equal(tokens[step], expected["token_ids"])
        valid = expected["document_ids"] >= 0
        np.testing.assert_array_equal(documents[step] >= 0, valid)
        shift = set((documents[step] - expected["document_ids"])[valid])
        assert len(shift) == 1
        shifts += shift
    for step in range(1, count):
        if step % len(stream):
            assert shifts[step] == shifts[step - 1], "border in mid-stream"
        else:
            assert shifts[step] != shifts[step - 1], "a pass must begin clean"


def test_stream_is_read_in_order_over_epochs(model, stream):
    model.fit(stream, epochs=3, shuffle=False, verbose=0)
    assert_passes_in_order(model, stream, 18)


def test_tf_dataset_is_read_in_order_over_epochs(model, stream):
    model.fit(stream.to_tf_dataset(), epochs=3, shuffle=False, verbose=0)
    assert_passes_in_order(model, stream, 18)


def test_generator_is_read_in_order_over_epochs(model, stream):
    def passes():
        while True:
            yield from stream

    model.fit(passes(), epochs=3, steps_per_epoch=6, shuffle=False, verbose=0)
    assert_passes_in_order(model, stream, 18)


def test_repeated_stream_goes_on_under_any_steps_per_epoch(model, stream):
    model.fit(
        stream.repeat(), epochs=4, steps_per_epoch=4, shuffle=False, verbose=0
    )
    assert_passes_in_order(model, stream, 16)


def test_repeated_tf_dataset_goes_on_under_any_steps_per_epoch(model, stream):
    dataset = stream.to_tf_dataset().repeat()
    model.fit(dataset, epochs=4, steps_per_epoch=4, shuffle=False, verbose=0)
    assert_passes_in_order(model, stream, 16)


def test_endless_generator_goes_on_under_any_steps_per_epoch(model, stream):
    def passes():
        while True:
            yield from stream

    model.fit(passes(), epochs=4, steps_per_epoch=4, shuffle=False, verbose=0)
    assert_passes_in_order(model, stream, 16)


@pytest.mark.filterwarnings("ignore:.*ran out of data")
def test_stream_goes_on_over_epochs_of_steps(model, stream):
    # Keras ends the second epoch early, with a warning, as the pass is over.
    model.fit(stream, epochs=4, steps_per_epoch=4, shuffle=False, verbose=0)
    assert_passes_in_order(model, stream, 12)


def test_validation_on_another_stream_changes_nothing(model, stream):
    other = SegmentStream(np.arange(40), 2, 2)
    model.fit(
        stream,
        epochs=3,
        shuffle=False,
        verbose=0,
        validation_data=other,
    )
    assert_passes_in_order(model, stream, 18)


def test_evaluate_and_predict_read_the_whole_stream(model, stream):
    assert model.evaluate(stream, verbose=0) > 0
    assert model.predict(stream, verbose=0).shape[0] == 2 * len(stream)


def test_shuffled_fit_is_an_error_that_names_shuffle(model):
    stream = SegmentStream(np.arange(400) % 50, 2, 2)
    with pytest.raises(Exception, match="shuffle=False"):
        model.fit(stream, shuffle=True, verbose=0)
