"""Texts of any length, classified: equal to the segments read by hand."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLTextClassifier
from keras_txl.models import TransformerXLTextClassifierPreprocessor
from keras_txl.tokenizers import TransformerXLByteTokenizer
from tests.oracles.gradients import gradients_of
from tests.oracles.weights import randomize
from tests.tolerances import FLOAT32
from tests.tolerances import REORDERED
from tests.tolerances import assert_close

SEGMENT_LENGTH = 4
TEXTS = [
    np.random.default_rng(5).integers(0, 17, size=size)
    for size in (10, 3, 8, 0, 30)
]


def make_classifier(make_lm, pooling="last", seed=1, **arguments):
    backbone = make_lm(
        **{"batch_size": None, **arguments.pop("backbone", {})}
    ).backbone
    classifier = TransformerXLTextClassifier(
        backbone,
        3,
        segment_length=SEGMENT_LENGTH,
        pooling=pooling,
        **arguments,
    )
    randomize(classifier, seed=seed)
    return classifier


@pytest.fixture(scope="module")
def classifiers(make_lm):
    return {
        pooling: make_classifier(make_lm, pooling)
        for pooling in ("last", "mean")
    }


def padded(texts, width, front=0):
    """Rows with `front` places of padding, the text, and more padding."""
    token_ids = np.full((len(texts), width), 9, "int32")
    padding_mask = np.zeros((len(texts), width), bool)
    for row, text in enumerate(texts):
        token_ids[row, front : front + len(text)] = text
        padding_mask[row, front : front + len(text)] = True
    return {"token_ids": token_ids, "padding_mask": padding_mask}


def read_by_hand(classifier, text):
    """Logits of one text, its segments cut from the end, without padding."""
    backbone = classifier.backbone
    pieces = []
    while len(text):
        pieces.insert(0, text[-SEGMENT_LENGTH:])
        text = text[:-SEGMENT_LENGTH]
    memory = backbone.initial_memory(1)
    states = []
    for piece in pieces:
        hidden, memory = backbone.call_with_memory(piece[None], memory)
        states.append(ops.convert_to_numpy(hidden)[0])
    pooled = np.zeros(backbone.hidden_dim)
    if states:
        states = np.concatenate(states)
        pooled = states[-1] if classifier.pooling == "last" else states.mean(0)
    kernel, bias = classifier.output_dense.get_weights()
    return pooled @ kernel + bias


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_each_row_has_the_logits_of_its_text_read_by_hand(classifiers, pooling):
    classifier = classifiers[pooling]
    expected = [read_by_hand(classifier, text) for text in TEXTS]
    logits = classifier.predict_on_batch(padded(TEXTS, 33, front=2))
    assert_close(logits, np.stack(expected), FLOAT32, "logits in a batch")
    alone = classifier.predict_on_batch(TEXTS[0][None])
    assert_close(alone[0], expected[0], FLOAT32, "logits alone")


def test_what_stands_in_padding_changes_nothing(classifiers):
    batch = padded(TEXTS, 33)
    other = {**batch, "token_ids": np.array(batch["token_ids"])}
    other["token_ids"][~batch["padding_mask"]] = 1
    first, second = map(classifiers["mean"].predict_on_batch, (batch, other))
    assert_close(first, second, 0, "logits")


def test_predict_keeps_the_given_order_whatever_the_batches(classifiers):
    classifier = classifiers["last"]
    logits = classifier.predict(TEXTS, batch_size=2, verbose=0)
    expected = [read_by_hand(classifier, text) for text in TEXTS]
    assert_close(logits, np.stack(expected), FLOAT32, "logits")


@pytest.mark.backend("tensorflow")  # the equations are those of the backbone
def test_segments_with_enough_memory_equal_one_long_segment(make_lm):
    backbone = {"memory_length": 32}
    short = make_classifier(make_lm, "mean", backbone=backbone)
    long = TransformerXLTextClassifier(
        short.backbone, 3, pooling="mean", segment_length=32
    )
    long.set_weights(short.get_weights())
    batch = padded(TEXTS, 32)
    assert_close(short(batch), long(batch), FLOAT32, "logits")


@pytest.mark.parametrize("count", [1, 2])
def test_gradient_reaches_as_many_segments_as_asked_for(make_lm, count):
    classifier = make_classifier(make_lm, "mean", gradient_segments=count)
    text = np.arange(16)  # token 4 s + i stands in segment s
    (table,) = gradients_of(
        lambda: ops.sum(classifier(text[None], training=True) ** 2),
        [classifier.backbone.token_embedding.embeddings],
    )
    reached = np.abs(table).max(axis=1) > 0
    assert reached[:16].tolist() == [False] * (16 - 4 * count) + [True] * (
        4 * count
    )


@pytest.fixture(scope="module")
def labelled():
    """Texts whose first token is their label, far from their end."""
    random = np.random.default_rng(3)
    texts = [random.integers(3, 17, size=size) for size in [5, 9, 7, 10] * 4]
    labels = np.arange(16) % 3
    for text, label in zip(texts, labels, strict=True):
        text[0] = label
    return texts, labels


def test_fit_on_texts_and_labels_learns_what_memory_must_carry(
    make_lm, labelled
):
    classifier = make_classifier(
        make_lm, language_model_weight=0.1, backbone={"num_layers": 1}
    )
    classifier.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    before = classifier.evaluate(*labelled, batch_size=16, verbose=0)[0]
    history = classifier.fit(
        *labelled,
        batch_size=16,
        epochs=25,
        validation_data=labelled,
        verbose=0,
    ).history
    assert history["val_loss"][-1] < before / 2
    assert history["val_accuracy"][-1] > 0.8
    # The language-model loss counts in training alone.
    assert history["loss"][-1] > history["val_loss"][-1] + 0.05


@pytest.mark.backend("tensorflow")
def test_language_model_loss_is_the_mean_of_the_token_losses(make_lm):
    classifier = make_classifier(make_lm, language_model_weight=0.5)
    lm = TransformerXLCausalLM(classifier.backbone)
    lm.output_bias.set_weights(classifier.text_reader.output_bias.get_weights())
    classifier(padded(TEXTS[:3], 12), training=True)
    added = float(sum(classifier.losses))
    total = tokens = 0
    for text in TEXTS[:3]:  # the last segment of each
        memory = lm.initial_memory(1)
        if len(text) % 4:
            _, memory = lm.step(text[None, : len(text) % 4], memory)
        for begin in range(len(text) % 4, len(text), 4):
            piece = text[begin : begin + 4]
            losses, memory = lm.token_losses(
                piece[None], np.append(piece[1:], 0)[None], memory
            )
        if len(text) < 4:
            losses, _ = lm.token_losses(
                text[None], np.append(text[1:], 0)[None], lm.initial_memory(1)
            )
        losses = ops.convert_to_numpy(losses)[0, :-1]
        total, tokens = total + losses.sum(), tokens + losses.size
    assert_close(added, 0.5 * total / tokens, FLOAT32, "added loss")


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(
    "loss, labels",
    [("mse", [[0.5] * 3, [1.5] * 3]), ("binary_crossentropy", np.eye(3)[:2])],
)
def test_regression_and_labels_that_hold_together_train(make_lm, loss, labels):
    classifier = make_classifier(make_lm, activation="sigmoid")
    classifier.compile("adam", loss, run_eagerly=True)
    assert classifier.fit(TEXTS[:2], labels, verbose=0).history["loss"][0] > 0


def byte_classifier(make_lm, **arguments):
    lm = make_lm(vocabulary_size=256, batch_size=None, num_layers=1)
    preprocessor = TransformerXLTextClassifierPreprocessor(
        TransformerXLByteTokenizer()
    )
    classifier = TransformerXLTextClassifier(
        lm.backbone, 2, preprocessor, segment_length=4, **arguments
    )
    randomize(classifier, seed=2)
    return classifier


STRINGS = ["abcdefghij", "ab", "xyzxyzx"]


@pytest.mark.backend("tensorflow")
def test_a_length_that_holds_no_special_tokens_is_an_error():
    tokenizer = SimpleNamespace(start_token_id=1, end_token_id=2)
    with pytest.raises(ValueError, match="`sequence_length` .* at least 2"):
        TransformerXLTextClassifierPreprocessor(tokenizer, 1, True, True)


def test_preset_of_a_classifier_gives_the_same_logits(make_lm, tmp_path):
    classifier = byte_classifier(make_lm, language_model_weight=0.1)
    classifier.save_to_preset(tmp_path)
    loaded = keras_hub_classifier().from_preset(str(tmp_path))
    assert type(loaded) is TransformerXLTextClassifier
    assert loaded.segment_length == 4
    classifier.optimizer.build(classifier.trainable_variables)
    classifier.save(tmp_path / "classifier.keras")
    reloaded = keras.saving.load_model(tmp_path / "classifier.keras")
    models = classifier, loaded, reloaded
    logits = [model.predict(STRINGS, verbose=0) for model in models]
    assert_close(logits[1], logits[0], REORDERED, "logits of the preset")
    assert_close(logits[2], logits[0], REORDERED, "logits of the file")


def keras_hub_classifier():
    import keras_hub

    return keras_hub.models.TextClassifier


@pytest.mark.backend("tensorflow")
def test_preset_of_a_language_model_gives_the_backbone(make_lm, tmp_path):
    from keras_txl.models import TransformerXLCausalLMPreprocessor

    lm = make_lm(vocabulary_size=256)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    lm.save_to_preset(tmp_path)
    classifier = TransformerXLTextClassifier.from_preset(
        str(tmp_path), num_classes=2, memory_length=9, dropout=0.3
    )
    assert classifier.dropout == 0.3
    assert classifier.backbone.dropout == 0
    assert classifier.backbone.memory_length == 9
    assert_close(
        classifier.backbone.token_embedding.embeddings,
        lm.backbone.token_embedding.embeddings,
        0,
        "table",
    )
    assert classifier.predict(STRINGS, verbose=0).shape == (3, 2)


def test_strings_in_tf_data_give_what_lists_give(make_lm):
    import tensorflow as tf

    classifier = byte_classifier(make_lm)
    labels = np.array([0, 1, 1])
    data = tf.data.Dataset.from_tensor_slices((STRINGS, labels)).batch(3)
    from_data = classifier.evaluate(data, verbose=0)
    from_lists = classifier.evaluate(STRINGS, labels, verbose=0)
    assert_close(from_data, from_lists, REORDERED, "loss and accuracy")


def test_widened_memory_is_read_up_to_the_limit_in_training(classifiers):
    classifier = classifiers["last"]
    batch = padded(TEXTS, 32)
    full = classifier(batch, training=True)
    for memory in classifier.backbone.memory_layers:
        memory.reading_limit = 2
    limited = classifier(batch, training=True)
    evaluated = classifier(batch)
    for memory in classifier.backbone.memory_layers:
        memory.reading_limit = None
    full, limited, evaluated = map(
        ops.convert_to_numpy, (full, limited, evaluated)
    )
    assert np.abs(full - limited)[0].max() > 1e-3
    assert_close(evaluated, full, FLOAT32, "an evaluation")


@pytest.mark.backend("tensorflow")
def test_arguments_out_of_range_are_named(make_lm):
    backbone = make_lm().backbone
    with pytest.raises(ValueError, match="`pooling` must be one of"):
        TransformerXLTextClassifier(backbone, 2, pooling="first")
    with pytest.raises(ValueError, match="`gradient_segments`"):
        TransformerXLTextClassifier(backbone, 2, gradient_segments=0)
    with pytest.raises(TypeError, match="segments"):
        TransformerXLTextClassifier(backbone, 2, segments=4)
    with pytest.raises(ValueError, match="at least one text"):
        TransformerXLTextClassifier(backbone, 2).predict([])
    with pytest.raises(ValueError, match="Strings need a tokenizer"):
        TransformerXLTextClassifier(backbone, 2).predict(["text"])
