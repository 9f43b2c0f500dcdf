"""One exported model for all tests that only look at it."""

import numpy as np
import pytest

from tests.oracles.weights import randomize


@pytest.fixture(scope="session")
def served_lm(make_lm):
    """A tiny model over bytes whose logits are far apart."""
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    lm = make_lm(vocabulary_size=256, batch_size=None)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    randomize(lm, seed=5, scale=1.0)
    # Without biases no token is the likeliest everywhere.
    for weight in lm.weights:
        if weight.name in ("bias", "beta"):
            weight.assign(np.zeros(weight.shape))
    return lm


@pytest.fixture(scope="session")
def exported(served_lm, tmp_path_factory):
    """The model and its version folder, with two server-side sessions."""
    from keras_txl.export import export_saved_model

    path = tmp_path_factory.mktemp("served") / "tiny"
    return served_lm, export_saved_model(served_lm, path, num_sessions=2)


@pytest.fixture(scope="session")
def byte_lm():
    """A tiny model over bytes; with these weights it says many of them."""
    import keras

    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    keras.utils.set_random_seed(1)
    backbone = TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        memory_length=6,
        dropout=0.0,
        tie_embeddings=False,
        initializer_range=0.5,
    )
    preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer(), sequence_length=16
    )
    return TransformerXLCausalLM(backbone, preprocessor)


@pytest.fixture(scope="session")
def onnx_folders(byte_lm, tmp_path_factory):
    """Folder of the ONNX model of each flavour."""
    from keras_txl.export import export_onnx

    root = tmp_path_factory.mktemp("onnx")
    return {
        flavour: export_onnx(byte_lm, root / flavour, flavour)
        for flavour in ("hidden", "kv", "kv_ring")
    }
