"""Classifiers with what else Keras has for training: weights, adapters,
callbacks, labels of each kind."""

import keras
import numpy as np
import pytest

from keras_txl.data import TextBatches
from keras_txl.models import TransformerXLTextClassifier
from keras_txl.models import TransformerXLTokenClassifier
from keras_txl.training import GradualUnfreezing
from keras_txl.training import ResumeTraining
from keras_txl.training import WidenMemory
from keras_txl.training import layerwise_decay
from keras_txl.training import make_optimizer
from tests.oracles.weights import randomize
from tests.tolerances import EXACT
from tests.tolerances import REORDERED
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

TEXTS = [np.arange(size) % 17 for size in (5, 3, 6, 4)]
LABELS = np.array([0, 2, 1, 2])
# Compiling takes longer; JAX would compile each operation.
EAGER = {"run_eagerly": keras.backend.backend() != "jax"}


@pytest.fixture
def classifier(make_lm):
    backbone = make_lm(num_layers=1, batch_size=None).backbone
    made = TransformerXLTextClassifier(backbone, 3, segment_length=4)
    randomize(made, seed=1)
    return made


def compiled(classifier, rate=0.01, loss="auto"):
    factors = layerwise_decay(classifier, 0.5)
    optimizer = make_optimizer("adam", rate, rate_factors=factors)
    classifier.compile(optimizer, loss, metrics=[], **EAGER)
    return classifier


def copies(variables):
    return [np.array(to_numpy(variable)) for variable in variables]


def test_classes_and_texts_are_weighted(classifier):
    compiled(classifier, rate=0.0)  # nothing moves
    by_class = {0: 1.0, 1: 0.25, 2: 3.0}
    by_text = np.array([by_class[label] for label in LABELS])
    plain = classifier.evaluate(TEXTS, LABELS, verbose=0)
    weighted = classifier.evaluate(
        TEXTS, LABELS, sample_weight=by_text, verbose=0
    )
    assert abs(weighted - plain) > 0.1
    for weights in ({"class_weight": by_class}, {"sample_weight": by_text}):
        history = classifier.fit(TEXTS, LABELS, verbose=0, **weights).history
        assert_close(history["loss"][0], weighted, REORDERED, str(weights))


def test_adapters_of_a_classifier_are_trained_and_saved(classifier, tmp_path):
    frozen = list(classifier.backbone.trainable_weights)
    kept = copies(frozen)
    classifier.backbone.enable_lora(2)
    compiled(classifier).fit(TEXTS, LABELS, verbose=0)
    for variable, value in zip(frozen, kept, strict=True):
        assert_close(variable, value, EXACT, variable.path)
    trained = [v.path for v in classifier.trainable_weights]
    assert sum("lora" in path for path in trained) == 4  # query and value
    assert sum("logits" in path for path in trained) == len(trained) - 4
    logits = classifier.predict(TEXTS, verbose=0)
    classifier.save_to_preset(tmp_path)
    loaded = TransformerXLTextClassifier.from_preset(str(tmp_path))
    found = loaded.predict(TEXTS, verbose=0)
    assert_close(found, logits, REORDERED, "logits of the preset")


class Stop(keras.callbacks.Callback):
    """A process that ends at the beginning of an epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


@pytest.mark.backend("tensorflow", "torch")  # JAX compiles for each epoch
def test_fine_tuning_goes_on_from_a_backup(classifier, tmp_path):
    start = copies(classifier.variables)
    whole = {"shuffle": False, "epochs": 4, "verbose": 0}

    def run(*callbacks):
        compiled(classifier)
        for variable, value in zip(classifier.variables, start, strict=True):
            variable.assign(value)
        schedule = [GradualUnfreezing(), WidenMemory([0, 2])]
        schedule = [*callbacks[1:], *schedule, *callbacks[:1]]
        classifier.fit(TEXTS, LABELS, callbacks=schedule, **whole)
        return copies(classifier.trainable_variables)

    expected = run()
    backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    with pytest.raises(KeyboardInterrupt):
        run(Stop(), backup)
    found = run(keras.callbacks.BackupAndRestore(str(tmp_path / "backup")))
    for a, b, v in zip(
        found, expected, classifier.trainable_variables, strict=True
    ):
        assert_close(a, b, EXACT, v.path)


@pytest.mark.backend("tensorflow")
def test_a_text_classifier_is_told_how_to_go_on(classifier, tmp_path):
    with pytest.raises(ValueError, match="BackupAndRestore"):
        compiled(classifier).fit(
            TEXTS, LABELS, callbacks=[ResumeTraining(tmp_path)], verbose=0
        )


@pytest.mark.parametrize(
    "loss, labels",
    [
        ("mse", np.arange(12).reshape(4, 3) / 4),
        (keras.losses.BinaryCrossentropy(from_logits=True), np.eye(4)[:, :3]),
    ],
)
def test_heads_of_numbers_and_of_labels_that_hold_together(
    classifier, loss, labels
):
    compiled(classifier, loss=loss)
    before = classifier.evaluate(TEXTS, labels, verbose=0)
    classifier.fit(TEXTS, labels, epochs=3, verbose=0)
    assert classifier.evaluate(TEXTS, labels, verbose=0) < before


@pytest.mark.parametrize(
    "loss, labels, message",
    [
        ("auto", [0, 1, 2, 3], r"0 to 2 .*Received: labels from 0 to 3"),
        ("auto", [0, -1, 2, 1], r"labels from -1 to 2"),
        ("auto", [0.5, 1, 2, 1], r"labels from 0.5 to 2.0, of type float64"),
        ("mse", [0, 1, 2, 1], r"labels.shape=\(4,\), num_classes=3"),
    ],
)
def test_labels_that_do_not_fit_are_named(classifier, loss, labels, message):
    compiled(classifier, loss=loss)
    labels = np.array(labels)
    batches = TextBatches(TEXTS, labels)
    good = np.zeros((4, 3)) if loss == "mse" else LABELS
    for run in (
        lambda: classifier.fit(TEXTS, labels, verbose=0),
        lambda: classifier.fit(batches, verbose=0),
        lambda: classifier.evaluate(np.stack([TEXTS[0]] * 4), labels),
        lambda: classifier.fit(
            TEXTS, good, validation_data=(TEXTS, labels), verbose=0
        ),
    ):
        with pytest.raises(ValueError, match=message):
            run()


@pytest.mark.backend("tensorflow")
def test_labels_of_tokens_that_do_not_fit_are_named(make_lm):
    model = TransformerXLTokenClassifier(make_lm(num_layers=1).backbone, 2)
    model.compile("adam", "sparse_categorical_crossentropy")
    ids = np.arange(8).reshape(2, 4)
    with pytest.raises(ValueError, match="0 to 1 .*labels from 0 to 7"):
        model.fit(ids, ids, verbose=0)
    with pytest.raises(ValueError, match="0 to 1 .*labels from 0 to 7"):
        model.evaluate(ids, ids, verbose=0)
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(True, ignore_class=-1),
        run_eagerly=True,
    )
    model.fit(ids, ids % 3 - 1, verbose=0)
