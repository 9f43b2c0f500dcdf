"""The names that other people's code depends on (docs/architecture.md)."""

import inspect

import keras
import pytest

import keras_txl

PUBLIC = {
    "analysis": [
        "assert_no_leaks",
        "attention_by_distance",
        "check_isolation",
        "relative_effective_context_length",
    ],
    "convert": [
        "from_huggingface",
        "from_original_pytorch",
        "from_original_tensorflow",
        "to_original_pytorch",
    ],
    "data": [
        "SegmentStream",
        "TokenFile",
        "encode_corpus",
        "load_corpus",
        "read_text_pieces",
        "stream_documents",
    ],
    "evaluation": ["evaluate_stream"],
    "export": [
        "ExportMismatchError",
        "export_litert",
        "export_onnx",
        "export_saved_model",
        "open_onnx",
        "read_manifest",
        "serving",
        "verify_export",
        "verify_manifest",
    ],
    "generation": [
        "IncrementalText",
        "TextStream",
        "TokenStream",
        "load_memory",
        "save_memory",
    ],
    "layers": [
        "AdaptiveEmbedding",
        "AdaptiveSoftmax",
        "RelativeMultiHeadAttention",
        "SegmentMemory",
        "SinusoidalDistanceEncoding",
        "TransformerXLBlock",
    ],
    "metrics": ["BitsPerCharacter", "Perplexity"],
    "models": [
        "TransformerXLBackbone",
        "TransformerXLCausalLM",
        "TransformerXLCausalLMPreprocessor",
        "TransformerXLTextClassifier",
        "TransformerXLTextClassifierPreprocessor",
        "TransformerXLTokenClassifier",
    ],
    "report": ["ReadingMeasurements", "measure_reading", "write_report"],
    "tokenizers": [
        "TransformerXLBytePairTokenizer",
        "TransformerXLByteTokenizer",
        "TransformerXLCharacterTokenizer",
        "TransformerXLSentencePieceTokenizer",
        "TransformerXLWordTokenizer",
        "load_tokenizer",
        "read_vocabulary",
        "train_tokenizer",
    ],
    "training": [],
}


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_promised_names_are_there(module):
    names = getattr(keras_txl, module).__all__
    assert set(PUBLIC[module]) <= set(names)


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_listed_name_exists_and_is_documented(module):
    namespace = getattr(keras_txl, module)
    for name in namespace.__all__:
        value = getattr(namespace, name)
        assert inspect.getdoc(value), f"{module}.{name} has no docstring"


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_keras_classes_are_registered_under_the_package(module):
    namespace = getattr(keras_txl, module)
    for name in namespace.__all__:
        value = getattr(namespace, name)
        if inspect.isclass(value) and issubclass(
            value, (keras.layers.Layer, keras.Model, keras.metrics.Metric)
        ):
            assert (
                keras.saving.get_registered_name(value) == f"keras_txl>{name}"
            )


def test_every_submodule_is_listed_at_the_top():
    assert set(keras_txl.__all__) == {"__version__", *PUBLIC}
    assert set(dir(keras_txl)) == set(keras_txl.__all__)
