"""Vectors in place of token ids: the same model behind a projection."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.analysis import trace_memory
from keras_txl.cli.model_folder import load_model
from keras_txl.data import FeatureStream
from keras_txl.evaluation import evaluate_stream
from keras_txl.evaluation import score_texts
from keras_txl.export import export_litert
from keras_txl.export import export_onnx
from keras_txl.export import export_saved_model
from keras_txl.export import verify_export
from keras_txl.models import StatefulModel
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLTextClassifier
from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

SIZES = {
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "memory_length": 6,
    "batch_size": 2,
    "dropout": 0.0,
}
WIDTH = 5
IDS = np.random.default_rng(3).integers(0, WIDTH, size=(2, 2, 4))
DOCUMENTS = np.array([[[0, 0, 0, 1], [4, -1, 4, 4]], [[1] * 4, [4, 4, -1, 5]]])


@pytest.fixture(scope="module")
def backbones():
    """One that reads ids and one that reads features, of the same weights."""
    of_ids = TransformerXLBackbone(vocabulary_size=WIDTH, **SIZES)
    of_features = TransformerXLBackbone(None, feature_dim=WIDTH, **SIZES)
    randomize(of_ids, seed=5)
    weights = [to_numpy(v) for v in of_ids.trainable_variables]
    bias = np.zeros(SIZES["hidden_dim"])
    table, *others = weights
    for variable, value in zip(
        of_features.trainable_variables, [table, bias, *others], strict=True
    ):
        variable.assign(value)
    return of_ids, of_features


@pytest.fixture(scope="module")
def model(backbones):
    """A head of one's own on the backbone that reads features."""
    backbone = backbones[1]
    outputs = keras.layers.Dense(WIDTH)(backbone(backbone.input))
    model = StatefulModel(backbone.input, outputs)
    model.compile(optimizer="sgd", loss="mse", weighted_metrics=[])
    return model


def one_hot(ids):
    return np.eye(WIDTH, dtype="float32")[ids]


def segments():
    """Inputs by ids and by features; nobody may read what padding holds."""
    for ids, documents in zip(IDS, DOCUMENTS, strict=True):
        features = one_hot(ids)
        features[documents < 0] = np.nan
        yield (
            {"token_ids": ids, "document_ids": documents},
            {"features": features, "document_ids": documents},
        )


def test_one_hot_vectors_are_ids(backbones):
    of_ids, of_features = backbones
    of_ids.reset_memory()
    of_features.reset_memory()
    memories = [backbone.initial_memory(2) for backbone in backbones]
    for inputs in segments():
        by_ids, by_features = [
            backbone(given)
            for backbone, given in zip(backbones, inputs, strict=True)
        ]
        assert_close(by_features, by_ids, tolerances.FLOAT32, "hidden states")
        values = [
            backbone.call_with_memory(given, memory)
            for backbone, given, memory in zip(
                backbones, inputs, memories, strict=True
            )
        ]
        memories = [memory for _, memory in values]
        assert_close(
            values[1][0], by_ids, tolerances.FLOAT32, "with memory as a value"
        )
    for name, kept in memories[0].items():
        assert_close(memories[1][name], kept, tolerances.FLOAT32, name)


def test_a_stream_of_vectors_holds_every_target_once():
    rng = np.random.default_rng(1)
    recordings = [rng.normal(size=(n, 3)) for n in (9, 1, 14)]
    stream = FeatureStream(recordings, batch_size=2, segment_length=4)
    found = []
    for inputs, targets, weights in stream:
        valid = weights > 0
        assert np.array_equal(valid, inputs["document_ids"] >= 0)
        assert not inputs["features"][~valid].any()
        found += [*zip(inputs["features"][valid], targets[valid], strict=True)]
    pairs = [
        pair
        for recording in recordings
        for pair in zip(recording[:-1], recording[1:], strict=True)
    ]
    assert len(found) == len(pairs) == stream.num_targets

    def in_order(some):
        return sorted(np.concatenate(pair).tolist() for pair in some)

    np.testing.assert_allclose(in_order(found), in_order(pairs), rtol=1e-6)


def test_fit_carries_memory_over_features(model):
    rng = np.random.default_rng(2)
    stream = FeatureStream(rng.normal(size=(34, WIDTH)), 2, segment_length=4)
    model.fit(stream, verbose=0)
    kept = to_numpy(model.segment_memories[0].bank(True)[1])
    assert (kept == SIZES["memory_length"]).all()
    # Features alone are one document, like ids alone.
    first = stream[0][0]["features"]
    model.reset_memory()
    alone = model(first)
    model.reset_memory()
    whole = model({"features": first, "document_ids": np.zeros((2, 4))})
    assert_close(alone, whole, tolerances.EXACT, "outputs")


def test_a_model_of_features_is_saved(model, backbones, tmp_path):
    features = one_hot(IDS[0])
    model.reset_memory()
    expected = to_numpy(model(features))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(again(features), expected, tolerances.EXACT, "outputs")
    backbone = backbones[1]
    backbone.save_to_preset(tmp_path / "preset")
    loaded = TransformerXLBackbone.from_preset(str(tmp_path / "preset"))
    assert loaded.get_config() == backbone.get_config()
    backbone.reset_memory()
    assert_close(
        loaded(features), backbone(features), tolerances.EXACT, "hidden"
    )


@pytest.mark.backend("tensorflow")
def test_an_archive_takes_features_and_memory(model, backbones, tmp_path):
    import tensorflow as tf

    backbone, head = backbones[1], model.layers[-1]

    def step(features, states, length, document):
        memory = {"states": states, "length": length, "document": document}
        hidden, memory = backbone.call_with_memory(features, memory)
        return {"outputs": head(hidden), **memory}

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(
        "step",
        step,
        [
            tf.TensorSpec((None, None, WIDTH), tf.float32, "features"),
            tf.TensorSpec((None, 1, 6, 8), tf.float32, "states"),
            tf.TensorSpec((None,), tf.int32, "length"),
            tf.TensorSpec((None,), tf.int32, "document"),
        ],
    )
    archive.write_out(str(tmp_path), verbose=False)
    served = tf.saved_model.load(str(tmp_path))
    memory = {
        name: tf.constant(value)
        for name, value in backbone.initial_memory(2).items()
    }
    model.reset_memory()
    for ids in IDS:
        features = one_hot(ids)
        kept = [memory[name] for name in ("states", "length", "document")]
        result = dict(served.step(features, *kept))
        assert_close(
            result.pop("outputs"), model(features), tolerances.FLOAT32, "step"
        )
        memory = result


# === Errors ===
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary_size": 7}, "`vocabulary_size` must be None with"),
        ({"cutoffs": [2]}, "`cutoffs` must be None with `feature_dim`"),
        ({"feature_dim": 0}, "`feature_dim` must be an integer of at least"),
        ({"feature_dim": None}, "`vocabulary_size` must be an integer"),
    ],
)
def test_features_and_a_vocabulary_exclude_each_other(arguments, message):
    given = {"vocabulary_size": None, "feature_dim": 3, **SIZES, **arguments}
    with pytest.raises(ValueError, match=message):
        TransformerXLBackbone(**given)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((2, 4)), r"segment_length, 5\). Received: features.shape="),
        (np.zeros((2, 4, 3)), r"features.shape=\(2, 4, 3\)"),
        (np.zeros((2, 0, 5)), "`features` must hold at least one"),
        ({"token_ids": IDS[0]}, "must be features, or a dict with `features`"),
        (
            {"features": np.zeros((2, 4, 5)), "document_ids": np.zeros((2, 3))},
            "must have the shape of `features` without the last axis",
        ),
    ],
)
def test_other_inputs_are_refused(backbones, inputs, message):
    with pytest.raises(ValueError, match=message):
        backbones[1](inputs)


def test_a_language_model_needs_a_vocabulary(backbones):
    with pytest.raises(ValueError, match="Put a head of your own on"):
        TransformerXLCausalLM(backbones[1])


@pytest.mark.backend("tensorflow")
def test_what_needs_tokens_says_so(model, tmp_path):
    sizes = {"segment_length": 2, "batch_size": 1}
    evaluate = functools.partial(evaluate_stream, **sizes)
    trace = functools.partial(trace_memory, **sizes)
    for function, given in (
        (export_saved_model, tmp_path),
        (export_onnx, tmp_path),
        (export_litert, tmp_path),
        (verify_export, tmp_path),
        (evaluate, [one_hot(IDS[0, 0])]),
        (score_texts, ["text"]),
        (trace, [one_hot(IDS[0, 0])]),
    ):
        arguments = [model, given]
        if function is verify_export:
            arguments.reverse()
        with pytest.raises(TypeError, match="Received: StatefulModel. Put a"):
            function(*arguments)


@pytest.mark.backend("tensorflow")
def test_the_command_line_names_what_a_folder_holds(backbones, tmp_path):
    backbones[1].save_to_preset(tmp_path / "vectors")
    with pytest.raises(ValueError, match="TransformerXLBackbone of vectors"):
        load_model(tmp_path / "vectors")
    classifier = TransformerXLTextClassifier(backbones[0], 2)
    classifier.save_to_preset(tmp_path / "texts")
    with pytest.raises(ValueError, match="holds a TransformerXLTextClassifier"):
        load_model(tmp_path / "texts")


@pytest.mark.backend("tensorflow")
def test_recordings_must_be_vectors_of_one_width():
    for recordings in (np.zeros(5), [np.zeros((3, 2)), np.zeros((3, 1))]):
        with pytest.raises(ValueError, match="`recordings` must be arrays"):
            FeatureStream(recordings, 1, 2)
    assert ops.shape(FeatureStream(np.ones((4, 2)), 1, 2)[0][1]) == (1, 2, 2)
