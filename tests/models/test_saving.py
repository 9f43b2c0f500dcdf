"""What a saved model holds, and that it comes back the same."""

import h5py
import keras
import keras_hub
import numpy as np
import pytest

from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

IDS = np.random.default_rng(2).integers(0, 17, size=(2, 4)).astype("int32")

SETTINGS = {
    "num_layers": 1,
    "head_dim": 3,
    "embedding_dim": 5,
    "memory_length": 6,
    "eval_memory_length": 7,
    "attention_window": "memory_length+1",
    "clamp_length": 9,
    "eval_attention_window": 5,
    "eval_clamp_length": None,
    "share_attention_biases": False,
    "normalize_first": True,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-3,
    "initializer_range": 0.1,
    "dropout": 0.2,
    "attention_logit_cap": 30.0,
    "attention_dropout": 0.3,
    "memory_dropout": 0.1,
    "head_diversity": 0.5,
    "remat": True,
    "tie_embeddings": False,
    "tie_projections": True,
    "attend_empty_memory": True,
    "memory_dtype": "float16",
}


@pytest.fixture(scope="module")
def lm(make_lm):
    """One layer, with something in both banks."""
    lm = make_lm(num_layers=1)
    lm.compile(optimizer=keras.optimizers.SGD(0.1))
    randomize(lm, seed=7)
    lm(IDS)
    lm(IDS, training=True)
    return lm


def logits(lm, length=None):
    values, _ = lm.step(IDS, lm.initial_memory(2, length))
    return to_numpy(values)


def banks_are_empty(lm):
    return all(
        not to_numpy(variable).any()
        for memory in lm.segment_memories
        if memory.batch_size is not None
        for training in (True, False)
        for variable in memory.bank(training)[:2]
    )


def arrays_in(path):
    """Sizes of the arrays of a weight file, but for the optimizer's."""
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset) and "optimizer" not in name:
            found[name] = item.size

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


# === Configuration ===
def test_every_setting_of_the_backbone_survives_its_configuration():
    from keras_txl.models import TransformerXLBackbone

    sizes = {
        "vocabulary_size": 17,
        "num_heads": 2,
        "hidden_dim": 8,
        "intermediate_dim": 16,
        "batch_size": 3,
    }
    backbone = TransformerXLBackbone(**sizes, **SETTINGS)
    config = backbone.get_config()
    for name, value in {**sizes, **SETTINGS}.items():
        assert config[name] == value, name
    again = TransformerXLBackbone.from_config(config)
    assert again.get_config() == config
    shapes = [variable.shape for variable in backbone.variables]
    assert [variable.shape for variable in again.variables] == shapes


def test_a_norm_of_memory_is_part_of_configuration_and_weights(make_lm):
    lm = make_lm(num_layers=1, memory_layer_norm=True)
    again = type(lm).from_config(lm.get_config())
    assert again.backbone.memory_layer_norm
    assert any("memory_norm" in weight.path for weight in again.weights)
    randomize(lm, seed=7)
    again.set_weights(lm.get_weights())
    assert_close(logits(again), logits(lm), tolerances.EXACT, "logits")


def test_a_model_is_rebuilt_from_its_configuration(lm):
    again = type(lm).from_config(lm.get_config())
    assert again.backbone.get_config() == lm.backbone.get_config()
    again.set_weights(lm.get_weights())
    assert_close(logits(again), logits(lm), tolerances.EXACT, "logits")


# === Files ===
def test_a_saved_model_comes_back_without_the_memory(lm, tmp_path):
    path = tmp_path / "model.keras"
    lm.save(path)
    again = keras.saving.load_model(path)
    assert type(again) is type(lm)
    assert banks_are_empty(again)
    assert not banks_are_empty(lm)
    assert_close(logits(again), logits(lm), tolerances.EXACT, "logits")
    assert isinstance(again.optimizer, keras.optimizers.SGD)
    assert again.memory_batch_size == 2
    expected = lm.evaluate(IDS, IDS, verbose=0)
    assert_close(
        again.evaluate(IDS, IDS, verbose=0),
        expected,
        tolerances.FLOAT32,
        "loss and perplexity",
    )


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize("given", ["auto", False])
def test_a_model_is_compiled_as_was_asked_for(make_lm, given):
    """Not as Keras understood it on the backend that saves."""
    from keras_txl.models import TransformerXLTextClassifier

    lm = make_lm(num_layers=1)
    for model in (lm, TransformerXLTextClassifier(lm.backbone, 2)):
        model.compile("sgd", jit_compile=given)
        assert model.get_compile_config()["jit_compile"] == given


def test_a_weight_file_holds_weights_and_no_memory(lm, tmp_path):
    path = tmp_path / "model.weights.h5"
    lm.save_weights(path)
    assert sum(arrays_in(path).values()) == count(lm.trainable_weights)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 5},
        {"batch_size": None},
        {"memory_length": 3, "eval_memory_length": 9},
        {"memory_length": 0},
    ],
)
def test_a_weight_file_fits_any_batch_size_and_memory(
    make_lm, lm, tmp_path, changes
):
    path = tmp_path / "model.weights.h5"
    lm.save_weights(path)
    other = make_lm(num_layers=1, **changes)
    other.load_weights(path)
    for variable, source in zip(
        other.trainable_weights, lm.trainable_weights, strict=True
    ):
        assert_close(variable, source, tolerances.EXACT, variable.path)
    assert banks_are_empty(other)


def test_loading_weights_leaves_the_memory_of_the_run(lm, tmp_path):
    path = tmp_path / "model.weights.h5"
    lm.save_weights(path)
    before = [to_numpy(variable).copy() for variable in lm.variables]
    lm.load_weights(path)
    for variable, value in zip(lm.variables, before, strict=True):
        assert_close(variable, value, tolerances.EXACT, variable.path)


# === Presets ===
def test_a_preset_is_loaded_by_keras_hub(lm, tmp_path):
    lm.save_to_preset(tmp_path)
    stored = [arrays_in(path) for path in sorted(tmp_path.glob("*.h5"))]
    assert sorted(sum(arrays.values()) for arrays in stored) == [
        count(lm.trainable_weights) - count(lm.backbone.trainable_weights),
        count(lm.backbone.trainable_weights),
    ]
    for loader in (keras_hub.models.CausalLM, type(lm)):
        again = loader.from_preset(str(tmp_path))
        assert type(again) is type(lm)
        assert banks_are_empty(again)
        assert_close(logits(again), logits(lm), tolerances.EXACT, "logits")
    backbone = keras_hub.models.Backbone.from_preset(str(tmp_path))
    assert type(backbone) is type(lm.backbone)
    assert backbone.get_config() == lm.backbone.get_config()
    for variable, source in zip(
        backbone.trainable_weights, lm.backbone.trainable_weights, strict=True
    ):
        assert_close(variable, source, tolerances.EXACT, variable.path)


def test_a_preset_keeps_the_tokenizer_and_the_sequence_length(tmp_path):
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    lm = TransformerXLCausalLM(
        TransformerXLBackbone(256, 1, 2, 8, 8, memory_length=4),
        TransformerXLCausalLMPreprocessor(
            TransformerXLByteTokenizer(), sequence_length=12
        ),
    )
    lm.compile(sampler="greedy")
    randomize(lm, seed=3)
    lm.save_to_preset(tmp_path)
    again = keras_hub.models.CausalLM.from_preset(str(tmp_path))
    assert type(again.preprocessor) is TransformerXLCausalLMPreprocessor
    assert again.preprocessor.sequence_length == 12
    again.compile(sampler="greedy")
    assert again.generate("The sea") == lm.generate("The sea")
