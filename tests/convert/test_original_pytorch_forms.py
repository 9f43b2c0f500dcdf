"""Forms of the original's checkpoints that differ from the golden ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_txl.convert import from_original_pytorch
from keras_txl.convert import to_original_pytorch
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM

GOLDEN = Path(__file__).parents[1] / "oracles" / "golden"


def read(name):
    with np.load(GOLDEN / f"{name}.npz") as file:
        config = json.loads(str(file["config"]))["ctor"]
        weights = {k[2:]: file[k] for k in file.files if k.startswith("w/")}
    return config, weights


def test_half_precision_checkpoints_are_read():
    config, weights = read("kim_default")
    halved = {name: w.astype("float16") for name, w in weights.items()}
    lm = from_original_pytorch(config, halved)
    kernel = lm.backbone.token_embedding.embeddings
    np.testing.assert_array_equal(
        np.asarray(kernel.numpy() if hasattr(kernel, "numpy") else kernel),
        halved["word_emb.emb_layers.0.weight"].astype("float32"),
    )


def test_absent_tie_projs_and_sampled_softmax_mean_none():
    config, weights = read("kim_default")
    config = {**config, "tie_projs": None, "sample_softmax": None}
    assert from_original_pytorch(config, weights) is not None


def test_pre_norm_with_absolute_positions_is_refused_both_ways():
    config, weights = read("kim_attn2_nomem")
    with pytest.raises(ValueError, match="`pre_lnorm` must be False"):
        from_original_pytorch({**config, "pre_lnorm": True}, weights)
    backbone = TransformerXLBackbone(
        17,
        1,
        1,
        8,
        8,
        position="absolute_sinusoidal",
        normalize_first=True,
    )
    with pytest.raises(ValueError, match="normalize_first=True"):
        to_original_pytorch(TransformerXLCausalLM(backbone))


def test_misspelt_overrides_are_named():
    config, weights = read("kim_default")
    with pytest.raises(TypeError, match="eval_memory_lenght"):
        from_original_pytorch(config, weights, eval_memory_lenght=4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attention_window", 3),
        ("attention_logit_cap", 50.0),
        ("memory_layer_norm", True),
    ],
)
def test_what_the_original_lacks_is_refused_on_the_way_back(name, value):
    backbone = TransformerXLBackbone(17, 1, 1, 8, 8, **{name: value})
    with pytest.raises(ValueError, match=f"{name}={value}; it needs"):
        to_original_pytorch(TransformerXLCausalLM(backbone))


def test_what_acts_in_training_alone_does_not_matter_on_the_way_back():
    training = {"memory_dropout": 0.5, "head_diversity": 1.0, "remat": True}
    backbone = TransformerXLBackbone(17, 1, 1, 8, 8, **training)
    assert to_original_pytorch(TransformerXLCausalLM(backbone))
