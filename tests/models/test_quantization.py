"""Quantized, adapted and mixed models: saved, loaded and generating."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.layers.quantizable import ReversibleEmbedding
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.models import TransformerXLTextClassifier
from keras_txl.models import TransformerXLTextClassifierPreprocessor
from keras_txl.models import TransformerXLTokenClassifier
from keras_txl.tokenizers import TransformerXLByteTokenizer
from tests import tolerances
from tests.oracles.gradients import gradient_at
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

IDS = np.arange(16).reshape(2, 8) * 7 % 256
TARGETS = (IDS + 7) % 256


def make(**changes):
    sizes = {
        "vocabulary_size": 256,
        "num_layers": 1,
        "num_heads": 2,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "memory_length": 6,
        "dropout": 0.0,
        **changes,
    }
    lm = TransformerXLCausalLM(
        TransformerXLBackbone(**sizes),
        TransformerXLCausalLMPreprocessor(
            TransformerXLByteTokenizer(), sequence_length=12
        ),
    )
    randomize(lm, seed=2, scale=0.2)
    return ready(lm)


def ready(lm):
    """Compiled; eager, but on JAX, where each operation is compiled then."""
    eager = keras.backend.backend() != "jax"
    lm.compile(optimizer="adam", sampler="greedy", run_eagerly=eager)
    return lm


def losses(lm):
    """Of two segments, the second behind memory of the first."""
    memory = lm.initial_memory(2)
    first, memory = lm.token_losses(IDS, TARGETS, memory)
    second, _ = lm.token_losses(IDS, TARGETS, memory)
    return np.stack([to_numpy(first), to_numpy(second)])


def reload(lm, folder, **arguments):
    lm.save_to_preset(folder)
    return ready(TransformerXLCausalLM.from_preset(str(folder), **arguments))


def quantize(lm, mode, **changes):
    config = None
    calibration = {
        "dataset": ["the sea is deep "] * 2,
        "tokenizer": lm.preprocessor.tokenizer,
        "num_samples": 2,
        "sequence_length": 8,
        "group_size": 8,
        **changes,
    }
    if mode == "gptq":
        config = keras.quantizers.GPTQConfig(**calibration)
    if mode == "awq":
        config = keras.quantizers.AWQConfig(**calibration)
    lm.quantize(mode, config)


ONCE = pytest.mark.backend("tensorflow")
"""Of the modes that only differ in Keras."""


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(
            "int8",
            # Keras's own product on PyTorch.
            marks=pytest.mark.filterwarnings("ignore:.*The use of `x.T`"),
        ),
        pytest.param("gptq", marks=ONCE),
        pytest.param("int4", marks=ONCE),
        pytest.param("float8", marks=ONCE),
        pytest.param("awq", marks=ONCE),
    ],
)
def test_a_quantized_model_is_saved_and_loaded(mode, tmp_path):
    lm = make()
    before = losses(lm)
    quantize(lm, mode)
    after = losses(lm)
    assert 0 < np.abs(after - before).max() < 0.5
    attention = lm.backbone.transformer_layers[0].attention
    assert attention.query_projection.quantization_mode == mode
    if mode == "awq":  # the text of the calibration was heard
        assert np.ptp(to_numpy(attention.query_projection.awq_scales)) > 0
    loaded = reload(lm, tmp_path / "once")
    # Keras computes the scales of embeddings in 4 bits in another order.
    tolerance = 1e-2 if mode == "int4" else tolerances.FLOAT32
    assert_close(losses(loaded), after, tolerance, "losses")
    again = reload(loaded, tmp_path / "twice")
    assert_close(losses(again), losses(loaded), tolerances.EXACT, "losses")
    assert again.generate("The", max_length=8) == loaded.generate(
        "The", max_length=8
    )


@pytest.mark.backend("torch")  # wraps around what others cut off
def test_weights_of_one_sign_are_not_quantized_wrongly():
    with pytest.raises(ValueError, match="both signs.* symmetric=True"):
        quantize(make(), "gptq")
    lm = make()
    before = losses(lm)
    quantize(lm, "gptq", symmetric=True)
    assert np.abs(losses(lm) - before).max() < 0.1


@pytest.mark.parametrize("tied", [True, False])
@ONCE
def test_tables_of_an_adaptive_model_are_quantized(tied, tmp_path):
    lm = make(cutoffs=[64, 128], div_val=2, tie_embeddings=tied)
    before = losses(lm)
    lm.quantize("int8")
    layers = [*lm.backbone.token_embedding.table_layers]
    layers += lm.adaptive_softmax.table_layers
    assert len(layers) == (3 if tied else 6)
    assert all(layer.embeddings.dtype == "int8" for layer in layers)
    after = losses(lm)
    assert 0 < np.abs(after - before).max() < 0.1
    loaded = reload(lm, tmp_path)
    assert_close(losses(loaded), after, tolerances.FLOAT32, "losses")


@ONCE
def test_filters_choose_layers():
    lm = make()
    lm.quantize("int8", filters=["^query$", "^key$"])
    attention = lm.backbone.transformer_layers[0].attention
    assert attention.query_projection.quantization_mode == "int8"
    assert attention.value_projection.quantization_mode is None
    lm = make()
    lm.quantize("int8", filters=lambda layer: layer.name == "token_embedding")
    assert lm.backbone.token_embedding.quantization_mode == "int8"


@ONCE
def test_a_model_is_quantized_once():
    lm = make()
    lm.quantize("int8")
    with pytest.raises(ValueError, match="is already quantized"):
        lm.quantize("int4")


def test_adapters_alone_are_trained_and_go_into_the_preset(tmp_path):
    lm = make(batch_size=2)
    kept = [(v, to_numpy(v).copy()) for v in lm.backbone.trainable_weights]
    lm.backbone.enable_lora(2)
    ready(lm)
    before = losses(lm)
    lm.fit(IDS, TARGETS, epochs=2, verbose=0)
    for variable, value in kept:
        assert_close(variable, value, tolerances.EXACT, variable.path)
    after = losses(lm)
    assert np.abs(after - before).max() > 0
    assert_close(
        losses(reload(lm, tmp_path)), after, tolerances.FLOAT32, "losses"
    )


@pytest.mark.parametrize("tied", [True, False])
def test_gradient_passes_through_quantized_logits(tied):
    table = ReversibleEmbedding(11, 8, tie_weights=tied)
    table.build()
    randomize(table, seed=4)
    hidden = np.random.default_rng(1).normal(size=(2, 3, 8)).astype("float32")
    weights = np.random.default_rng(2).normal(size=(2, 3, 11))
    weights = ops.convert_to_tensor(weights, "float32")

    def gradient():
        return gradient_at(
            lambda x: ops.sum(table(x, reverse=True) * weights), hidden
        )

    expected = gradient()
    table.quantize("int8")
    assert_close(gradient(), expected, 0.02, "gradient")
    if tied:  # what the adapter adds to the table, its logits show
        before = to_numpy(table(hidden, reverse=True))
        table.enable_lora(2)
        randomize(table, seed=5)
        a, b = table.lora_embeddings_a, table.lora_embeddings_b
        added = hidden @ (to_numpy(a) @ to_numpy(b)).T
        after = table(hidden, reverse=True)
        assert_close(after, before + added, tolerances.FLOAT32, "logits")


@ONCE
@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
def test_classifiers_are_quantized_saved_and_loaded(tmp_path):
    preprocessor = TransformerXLTextClassifierPreprocessor(
        TransformerXLByteTokenizer()
    )
    backbones = [make(batch_size=2).backbone for _ in range(2)]
    texts = TransformerXLTextClassifier(backbones[0], 2, preprocessor)
    tokens = TransformerXLTokenClassifier(backbones[1], 2)
    texts.quantize("int8")
    tokens.quantize("int8")
    texts.save_to_preset(tmp_path / "texts")
    tokens.save(tmp_path / "tokens.keras")
    folder = str(tmp_path / "texts")
    loaded = TransformerXLTextClassifier.from_preset(folder)
    assert_close(loaded(IDS), texts(IDS), tolerances.FLOAT32, "logits")
    loaded = keras.saving.load_model(tmp_path / "tokens.keras")
    wanted = tokens.label(IDS[0])
    assert_close(loaded.label(IDS[0]), wanted, tolerances.FLOAT32, "labels")


@ONCE
def test_a_map_of_policies_gives_a_layer_another_type():
    wide = {"transformer_layer_0/intermediate": keras.DTypePolicy("float32")}
    lm = make(dtype=keras.dtype_policies.DTypePolicyMap("bfloat16", wide))
    block = lm.backbone.transformer_layers[0]
    assert block.intermediate.kernel.dtype == "float32"
    assert block.projection.kernel.dtype == "bfloat16"
    again = type(lm.backbone).from_config(lm.backbone.get_config())
    block = again.transformer_layers[0]
    assert block.intermediate.kernel.dtype == "float32"
    assert np.isfinite(losses(lm)).all()
    assert ops.shape(lm(IDS)) == (2, 8, 256)
