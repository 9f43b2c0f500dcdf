"""Backbone, tasks, preprocessors and tokenizers as `ClassCase` asks."""

import keras
import numpy as np
import pytest

import keras_txl
from keras_txl import layers
from keras_txl import models
from keras_txl import tokenizers
from keras_txl.models.text_reader import TextReader
from tests.class_case import NARROW
from tests.class_case import ClassCase
from tests.class_case import floats
from tests.class_case import integers
from tests.class_case import public_classes

SIZES = {
    "vocabulary_size": 17,
    "num_layers": 1,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 8,
    "memory_length": 3,
}
IDS = integers(2, 3, below=17)
CASES = [
    ClassCase(models.TransformerXLBackbone, SIZES, (IDS,)),
    ClassCase(models.TransformerXLCausalLM, {}, (IDS,)),
    ClassCase(
        models.TransformerXLTextClassifier,
        {"num_classes": 2, "segment_length": 2, "language_model_weight": 0.1},
        (IDS,),
    ),
    ClassCase(
        models.TransformerXLTokenClassifier,
        {"num_classes": 2, "activation": "softmax"},
        (IDS,),
    ),
    # A graph has the policies of its layers.
    ClassCase(models.StatefulModel, {}, (floats(2, 3, 4),), narrow=None),
]


def memory_graph():
    """Inputs and outputs of a model of one's own."""
    inputs = keras.Input((None, 4), batch_size=2)
    context, _ = layers.SegmentMemory(4, batch_size=2)(inputs)
    return {"inputs": inputs, "outputs": keras.layers.Dense(1)(context)}


@pytest.fixture(params=CASES, ids=str)
def case(request):
    case = request.param
    if case.cls is models.StatefulModel:
        case.arguments.update(memory_graph())
    elif case.cls is not models.TransformerXLBackbone:
        case.arguments["backbone"] = models.TransformerXLBackbone(**SIZES)
    return case


def test_models_are_made_anew_and_answer_alike(case):
    case.check_configuration()
    case.check_calls()


def test_models_are_narrow_under_a_mixed_policy(case):
    if case.narrow is None:
        return
    if case.cls is models.TransformerXLBackbone:
        case.check_narrow()
        return
    # Tasks have the policy of their backbone.
    narrow = models.TransformerXLBackbone(**SIZES, dtype=NARROW)
    made = case.make(backbone=narrow)
    found = made(*case.inputs).dtype
    assert keras.backend.standardize_dtype(found) == case.narrow
    assert {v.dtype for v in made.trainable_weights} == {"float32"}


KINDS = {
    "byte": tokenizers.TransformerXLByteTokenizer,
    "character": tokenizers.TransformerXLCharacterTokenizer,
    "word": tokenizers.TransformerXLWordTokenizer,
    "byte-pair": tokenizers.TransformerXLBytePairTokenizer,
    "sentence-piece": tokenizers.TransformerXLSentencePieceTokenizer,
}
PREPROCESSORS = [
    models.TransformerXLCausalLMPreprocessor,
    models.TransformerXLTextClassifierPreprocessor,
]


@pytest.mark.parametrize("kind", KINDS)
def test_tokenizers_and_preprocessors_are_made_anew(kind, tmp_path):
    text = ["the sea is deep and the sea is wide"] * 4
    size = {"byte-pair": 280, "sentence-piece": 300}.get(kind)
    tokenizer = tokenizers.train_tokenizer(kind, text, vocabulary_size=size)
    assert type(tokenizer) is KINDS[kind]
    case = ClassCase(KINDS[kind])
    case.check_configuration()
    tokenizer.save_assets(tmp_path)
    for cls in PREPROCESSORS:
        preprocessor = cls(tokenizer, sequence_length=5)
        revived = keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(preprocessor)
        )
        assert revived.get_config() == preprocessor.get_config()
        assert type(revived.tokenizer) is type(tokenizer)
        # The vocabulary is an asset, no configuration.
        revived.tokenizer.load_assets(tmp_path)
        keras.tree.map_structure(
            np.testing.assert_array_equal, revived(text), preprocessor(text)
        )


def test_no_class_is_left_out():
    registered = {
        cls
        for cls in keras.saving.get_custom_objects().values()
        if cls.__module__.startswith(("keras_txl.models", "keras_txl.tokeni"))
    }
    tested = {case.cls for case in CASES} | {*KINDS.values(), *PREPROCESSORS}
    # A part of the classifier, which has no configuration of its own.
    assert registered - tested == {TextReader}
    # What the package shows elsewhere are no classes of these kinds.
    packages = [getattr(keras_txl, name) for name in keras_txl.__all__[1:]]
    public = public_classes(*packages) - public_classes(layers)
    assert public <= tested
    assert {*KINDS.values(), *PREPROCESSORS} < public
