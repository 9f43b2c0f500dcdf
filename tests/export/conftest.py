"""One exported model for all tests that only look at it."""

import pytest


@pytest.fixture(scope="session")
def exported(make_lm, tmp_path_factory):
    """A tiny model and its version folder."""
    from keras_txl.export import export_saved_model

    lm = make_lm()
    path = tmp_path_factory.mktemp("served") / "tiny"
    return lm, export_saved_model(lm, path)


@pytest.fixture(scope="session")
def byte_lm():
    """A tiny model over bytes, whose weights make it draw varied text."""
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer
    from tests.oracles.weights import randomize

    backbone = TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        memory_length=6,
        dropout=0.0,
    )
    tokenizer = TransformerXLByteTokenizer()
    preprocessor = TransformerXLCausalLMPreprocessor(
        tokenizer, sequence_length=16
    )
    lm = TransformerXLCausalLM(backbone, preprocessor)
    randomize(lm, seed=3)
    return lm


@pytest.fixture(scope="session")
def onnx_folders(byte_lm, tmp_path_factory):
    """Folder of the ONNX model of each flavour."""
    from keras_txl.export import export_onnx

    root = tmp_path_factory.mktemp("onnx")
    return {
        flavour: export_onnx(byte_lm, root / flavour, flavour)
        for flavour in ("hidden", "kv", "kv_ring")
    }
