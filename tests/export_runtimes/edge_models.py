"""A trained model over bytes, exported for every edge runtime."""

import os
from pathlib import Path

import keras
import numpy as np
import pytest

PROMPT = "The memory of "
TOKENS = 2000


def trained_lm(repository):
    """A model trained in seconds."""
    from keras_txl.data import SegmentStream
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    keras.utils.set_random_seed(1)
    backbone = TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        memory_length=32,
        batch_size=4,
        dropout=0.0,
    )
    preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer(), sequence_length=32
    )
    lm = TransformerXLCausalLM(backbone, preprocessor)
    # Little text, so that the model soon knows much of it by heart.
    text = (repository / "tests" / "tolerances.py").read_bytes()
    ids = np.frombuffer(text, "uint8").astype("int32")
    lm.compile(optimizer=keras.optimizers.Adam(5e-3))
    lm.fit(SegmentStream(ids, 4, 32), epochs=60, verbose=0)
    return lm


@pytest.fixture(scope="session")
def trained(repository, tmp_path_factory):
    """`lm`, the ids that it says greedily, and its folders by flavour."""
    from keras_txl.export import export_onnx

    lm = trained_lm(repository)
    root = tmp_path_factory.mktemp("edge")
    stream = lm.generate_stream(
        list(PROMPT.encode()),
        sampler="greedy",
        max_new_tokens=TOKENS,
        tokens_per_call=500,
    )
    said = np.concatenate(list(stream), axis=1)[0].tolist()
    assert len(set(said[-500:])) > 5
    folders = {
        flavour: export_onnx(lm, root / flavour, flavour)
        for flavour in ("hidden", "kv", "kv_ring")
    }
    return lm, said, folders


@pytest.fixture(scope="session")
def quickstart_ring(trained, tmp_path_factory):
    """Folder of the model that quickstart trained, if there is one."""
    from keras_txl.cli.model_folder import load_model
    from keras_txl.export import export_onnx

    if "QUICKSTART_MODEL" not in os.environ:
        return trained[2]["kv_ring"]
    lm = load_model(Path(os.environ["QUICKSTART_MODEL"]))
    return export_onnx(lm, tmp_path_factory.mktemp("quick") / "q", "kv_ring")
