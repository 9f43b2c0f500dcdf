"""Presets loaded with other arguments; arguments nobody would read."""

import numpy as np
import pytest
from keras import ops

from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from tests.oracles.weights import randomize

IDS = np.arange(12).reshape(2, 6) % 17
TARGETS = (IDS + 1) % 17


@pytest.fixture(scope="module")
def saved(make_lm, tmp_path_factory):
    lm = make_lm()
    randomize(lm, seed=3)
    folder = str(tmp_path_factory.mktemp("preset"))
    lm.save_to_preset(folder)
    return lm, folder


def losses(lm, memory_length):
    memory = lm.initial_memory(2, memory_length)
    first, memory = lm.token_losses(IDS, TARGETS, memory)
    second, _ = lm.token_losses(IDS, TARGETS, memory)
    return np.concatenate(
        [ops.convert_to_numpy(part) for part in (first, second)]
    )


def test_preset_loads_with_other_streams_and_memory(saved):
    lm, folder = saved
    loaded = TransformerXLCausalLM.from_preset(
        folder, batch_size=5, memory_length=3
    )
    assert loaded.memory_batch_size == 5
    assert loaded.backbone.memory_length == 3
    np.testing.assert_allclose(losses(loaded, 3), losses(lm, 3), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*The use of `x.T`")  # Keras, on PyTorch
@pytest.mark.parametrize("kind", ["frozen", "quantized"])
def test_weights_that_do_not_train_are_kept_with_other_memory(
    make_lm, tmp_path, kind
):
    lm = make_lm(num_layers=1)
    randomize(lm, seed=3)
    if kind == "quantized":
        lm.quantize("int8")
    else:
        lm.backbone.trainable = False
    lm.save_to_preset(tmp_path)
    loaded = TransformerXLCausalLM.from_preset(str(tmp_path), batch_size=5)
    assert loaded.memory_batch_size == 5
    np.testing.assert_allclose(losses(loaded, 3), losses(lm, 3), atol=1e-5)


def test_preset_with_another_evaluation_memory_keeps_the_head(saved):
    lm, folder = saved
    training = {"memory_dropout": 0.2, "head_diversity": 0.1, "remat": True}
    loaded = TransformerXLCausalLM.from_preset(
        folder, eval_memory_length=2, **training
    )
    for name, value in training.items():
        assert getattr(loaded.backbone, name) == value
    assert loaded.initial_memory(1)["states"].shape[2] == 2
    np.testing.assert_allclose(losses(loaded, 2), losses(lm, 2), atol=1e-6)


def test_replaced_weights_are_seen_by_compiled_steps(make_lm):
    lm = make_lm()
    before, _ = lm.step(IDS, lm.initial_memory(2))
    lm.backbone.enable_lora(2, target_layer_names=["query", "value"])
    for variable in lm.trainable_variables:
        if "lora" in variable.path:
            variable.assign(np.full(variable.shape, 0.5))
    after, _ = lm.step(IDS, lm.initial_memory(2))
    change = ops.convert_to_numpy(after) - ops.convert_to_numpy(before)
    assert np.abs(change).max() > 1e-4


@pytest.mark.parametrize(
    "arguments", [{"num_layers": 3}, {"memory_layer_norm": True}]
)
def test_preset_refuses_arguments_that_change_weights(saved, arguments):
    with pytest.raises(ValueError, match="which change the number or shape"):
        TransformerXLCausalLM.from_preset(saved[1], **arguments)


@pytest.mark.backend("tensorflow")
def test_preset_of_a_mixed_model_is_loaded_in_the_policy_asked_for(
    make_lm, tmp_path
):
    lm = make_lm(num_layers=1, dtype="mixed_bfloat16")
    lm.save_to_preset(tmp_path)
    weights = lm.backbone.get_weights()
    for policy, compute_dtype in (
        (None, "float32"),
        ("mixed_bfloat16", "bfloat16"),
    ):
        backbone = TransformerXLBackbone.from_preset(
            str(tmp_path), dtype=policy
        )
        of_lm = TransformerXLCausalLM.from_preset(str(tmp_path), dtype=policy)
        for loaded in (backbone, of_lm.backbone):
            assert loaded.compute_dtype == compute_dtype
            for value, expected in zip(
                loaded.get_weights(), weights, strict=True
            ):
                np.testing.assert_array_equal(value, expected)


def test_misspelt_arguments_are_named(make_lm):
    with pytest.raises(TypeError, match="eval_memory_lenght"):
        make_lm(eval_memory_lenght=4)
    with pytest.raises(TypeError, match="preprocesor"):
        TransformerXLCausalLM(make_lm().backbone, preprocesor=None)
    with pytest.raises(TypeError, match="`TransformerXLBackbone` has no"):
        TransformerXLBackbone(17, 1, 1, 8, 8, nonsense=3)
