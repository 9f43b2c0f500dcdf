"""Backbone, task, preprocessor and tokenizers as `ClassCase` asks."""

import keras
import numpy as np
import pytest

from keras_txl import models
from keras_txl import tokenizers
from tests.class_case import ClassCase
from tests.class_case import integers

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
]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    case = request.param
    if case.cls is models.TransformerXLCausalLM:
        case.arguments["backbone"] = models.TransformerXLBackbone(**SIZES)
    return case


def test_models_are_made_anew_and_answer_alike(case):
    case.check_configuration()
    case.check_calls()


@pytest.mark.backend("tensorflow")
def test_tokenizers_and_preprocessor_are_made_anew():
    text = ["the sea is deep and the sea is wide"] * 4
    for kind in ("byte", "character", "word"):
        tokenizer = (
            tokenizers.TransformerXLByteTokenizer()
            if kind == "byte"
            else tokenizers.train_tokenizer(kind, text)
        )
        preprocessor = models.TransformerXLCausalLMPreprocessor(
            tokenizer, sequence_length=5
        )
        revived = keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(preprocessor)
        )
        assert revived.get_config() == preprocessor.get_config()
        assert type(revived.tokenizer) is type(tokenizer)
        if kind != "byte":  # the vocabulary is an asset, not configuration
            continue
        eager = preprocessor(text)
        again = revived(text)
        for a, b in zip(
            keras.tree.flatten(eager), keras.tree.flatten(again), strict=True
        ):
            np.testing.assert_array_equal(a, b)
