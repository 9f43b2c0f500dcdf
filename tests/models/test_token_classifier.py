"""A label for each token, over inputs that are longer than a segment."""

import keras
import numpy as np
import pytest

from keras_txl.data import labelled_segments
from keras_txl.models import TransformerXLTokenClassifier
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close


def test_labels_that_memory_must_carry_are_learnt_and_saved(make_lm, tmp_path):
    """Each token of a document has the label that its first token names."""
    random = np.random.default_rng(1)
    documents = [random.integers(2, 17, size=11) for _ in range(8)]
    labels = []
    for index, document in enumerate(documents):
        document[0] = index % 2
        labels.append(np.full(11, index % 2))
    backbone = make_lm(num_layers=1, batch_size=4, memory_length=11).backbone
    model = TransformerXLTokenClassifier(backbone, 2)
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    inputs, targets, weights = labelled_segments(documents, labels, 4, 4)
    history = model.fit(
        inputs, targets, sample_weight=weights, epochs=30, verbose=0
    ).history
    assert history["accuracy"][-1] > 0.95
    logits = model.predict(inputs, verbose=0)
    first = model.label(documents[0], segment_length=4)
    found = logits.reshape(-1, 4, 4, 2).swapaxes(0, 1).reshape(-1, 2)
    numbers = inputs["document_ids"].reshape(-1, 4, 4).swapaxes(0, 1).ravel()
    assert_close(found[numbers == 0], first, FLOAT32, "logits of a document")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.label(documents[0], segment_length=4)
    assert_close(again, first, FLOAT32, "logits of the saved model")
    with pytest.raises(ValueError, match="ids of one document"):
        model.label([])
