"""Converted models repeat the losses of the code they come from."""

import numpy as np
import pytest

from keras_txl import convert
from tests import tolerances
from tests.convert.checkpoints import assert_losses
from tests.oracles.weights import randomize
from tests.tolerances import assert_close

ORIGINAL = (
    "kim_default",
    "kim_headdim",
    "kim_nomem",
    "kim_clamp",
    "kim_same_length",
    "kim_same_length_memshort",
    "kim_proj_tied_noadapt",
    "kim_untied_proj",
    "kim_prelnorm_memlong",
)
POSITIONS = (
    "kim_attn1",
    "kim_attn1_clamp",
    "kim_attn1_longer_than_table",
    "kim_attn2_nomem",
    "kim_attn3_nomem",
)
ADAPTIVE = (
    "kim_adaptive_div1",
    "kim_adaptive_div1_proj",
    "kim_adaptive_div2",
    "kim_adaptive_div2_alltied",
    "kim_adaptive_div2_untied",
)
# That code adds positions into its memory again and again.
FIRST_SEGMENT_ONLY = ("kim_attn2_mem", "kim_attn3_mem")
HUGGINGFACE = (
    "hf_default",
    "hf_nomem",
    "hf_untie_r",
    "hf_same_length_clamp",
    "hf_same_length_memshort",
    "hf_adaptive_div1",
    "hf_adaptive_div1_proj",
    "hf_adaptive_div2",
    "hf_adaptive_div2_untied",
)


@pytest.mark.parametrize("name", ORIGINAL + ADAPTIVE + POSITIONS + HUGGINGFACE)
def test_losses_of_every_segment(name, checkpoint):
    source = checkpoint(name)
    assert_losses(source.convert(), source.segments, name)


@pytest.mark.parametrize("name", FIRST_SEGMENT_ONLY)
def test_losses_of_the_first_segment(name, checkpoint):
    source = checkpoint(name)
    assert_losses(source.convert(), source.segments[:1], name)


@pytest.mark.parametrize(
    "name", ORIGINAL + ADAPTIVE + POSITIONS + FIRST_SEGMENT_ONLY
)
def test_weights_return_as_they_came(name, checkpoint):
    source = checkpoint(name)
    written = convert.to_original_pytorch(source.convert())
    assert set(written) == set(source.weights)
    for key, array in source.weights.items():
        assert written[key].dtype == array.dtype
        # Sines are of NumPy here, of PyTorch there: no weight.
        tolerance = 1e-8 if key == "pos_emb.inv_freq" else tolerances.EXACT
        assert_close(written[key], array, tolerance, f"{name}: {key}")


def test_a_model_made_here_goes_back_and_forth(make_lm):
    lm = make_lm(embedding_dim=6, batch_size=None)
    randomize(lm, seed=0)
    lm.backbone.trainable = False  # frozen weights are weights
    ids = np.arange(24).reshape(2, 12) % 17
    config = {
        "n_token": 17,
        "n_layer": 2,
        "n_head": 2,
        "d_model": 8,
        "d_head": 4,
        "d_inner": 16,
        "d_embed": 6,
        "mem_len": 6,
    }
    again = convert.from_original_pytorch(
        config, convert.to_original_pytorch(lm)
    )
    assert_close(again(ids), lm(ids), tolerances.EXACT, "logits")


def test_overrides_replace_what_the_source_says(checkpoint):
    lm = checkpoint("kim_default").convert(
        batch_size=3, eval_memory_length=20, eval_attention_window=5
    )
    assert lm.backbone.batch_size == 3
    assert lm.initial_memory(1)["states"].shape[2] == 20
    assert lm.backbone.eval_attention_window == 5
