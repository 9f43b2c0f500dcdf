"""Checkpoints with the names of the authors' TensorFlow code.

The golden files of Hugging Face hold what that code computes with the same
weights but for its epsilon (1e-12), so they stand in for it.
"""

import json

import numpy as np
import pytest

from keras_txl import convert
from tests import tolerances
from tests.convert.checkpoints import assert_losses
from tests.convert.tensorflow_checkpoints import tensorflow_arrays
from tests.convert.tensorflow_checkpoints import tensorflow_config
from tests.convert.tensorflow_checkpoints import write_checkpoint
from tests.tolerances import assert_close

NAMES = ("hf_default", "hf_adaptive_div1_proj", "hf_adaptive_div2")


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_the_same_weights(name, checkpoint, tmp_path):
    source = checkpoint(name)
    write_checkpoint(tmp_path / "model.ckpt-0", tensorflow_arrays(source))
    lm = convert.from_original_tensorflow(
        tmp_path / "model.ckpt-0",
        tensorflow_config(source.config),
        layer_norm_epsilon=1e-5,
    )
    assert_losses(lm, source.segments, name)


def test_projections_of_every_bin_may_be_untied(checkpoint, tmp_path):
    """The released One Billion Word models (but for the first bin)."""
    source = checkpoint("hf_adaptive_div2")
    rng = np.random.default_rng(0)
    for i in (1, 2):
        name = f"crit.out_projs.{i}"
        source.weights[name] = rng.normal(
            0, 0.3, source.weights[name].shape
        ).astype("float32")
    source.config["proj_share_all_but_first"] = False
    write_checkpoint(tmp_path / "model.ckpt", tensorflow_arrays(source))
    assert_same_losses(
        convert.from_original_tensorflow(
            tmp_path / "model.ckpt",
            tensorflow_config(source.config),
            layer_norm_epsilon=1e-5,
        ),
        source.convert(),
        source.segments,
    )


def test_a_bin_without_projection_gets_the_identity(checkpoint, tmp_path):
    """`proj_same_dim=False`: none in the bin that is as wide as the model."""
    source = checkpoint("hf_adaptive_div2")
    identity = np.eye(16, dtype="float32")
    source.weights["transformer.word_emb.emb_projs.0"] = identity
    source.weights["crit.out_projs.0"] = identity
    arrays = tensorflow_arrays(source)
    del arrays["transformer/adaptive_embed/cutoff_0/proj_W"]
    del arrays["transformer/adaptive_softmax/cutoff_0/proj"]
    write_checkpoint(tmp_path / "model.ckpt", arrays)
    config = {**tensorflow_config(source.config), "proj_same_dim": False}
    assert_same_losses(
        convert.from_original_tensorflow(
            tmp_path / "model.ckpt", config, layer_norm_epsilon=1e-5
        ),
        source.convert(),
        source.segments,
    )


def test_conventions_are_those_of_that_code(checkpoint, tmp_path):
    source = checkpoint("hf_default")
    write_checkpoint(tmp_path / "model.ckpt", tensorflow_arrays(source))
    config = {
        **tensorflow_config(source.config),
        "same_length": True,
        "clamp_len": 5,
        "mem_len": 9,
        "cutoffs": None,
    }
    backbone = convert.from_original_tensorflow(
        tmp_path / "model.ckpt", config
    ).backbone
    assert backbone.attention_window == "memory_length+1"
    assert backbone.attend_empty_memory is True
    assert backbone.layer_norm_epsilon == 1e-12
    assert backbone.clamp_length == 5
    assert backbone.memory_length == 9
    assert backbone.share_attention_biases is True


def test_corpus_info_and_flags_may_be_one_file(checkpoint, tmp_path):
    """Cutoffs with both ends and `n_token`, as that code has them."""
    source = checkpoint("hf_adaptive_div2")
    write_checkpoint(tmp_path / "model.ckpt", tensorflow_arrays(source))
    config = tensorflow_config(source.config)
    config["cutoffs"] = [0, *config["cutoffs"], config.pop("vocab_size")]
    config["n_token"] = 100
    config["dataset"] = "wt103"
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    lm = convert.from_original_tensorflow(tmp_path / "model.ckpt", path)
    assert list(lm.backbone.cutoffs) == source.config["cutoffs"]
    assert lm.backbone.vocabulary_size == 100


@pytest.mark.parametrize("path", ["", "model.ckpt-0", "model.ckpt-0.index"])
def test_folder_prefix_and_index_file_name_the_checkpoint(
    path, checkpoint, tmp_path
):
    source = checkpoint("hf_default")
    write_checkpoint(tmp_path / "model.ckpt-0", tensorflow_arrays(source))
    convert.from_original_tensorflow(
        tmp_path / path, tensorflow_config(source.config)
    )


def test_a_missing_checkpoint_says_what_a_prefix_is(checkpoint, tmp_path):
    config = tensorflow_config(checkpoint("hf_default").config)
    with pytest.raises(FileNotFoundError, match="PREFIX.index") as error:
        convert.from_original_tensorflow(tmp_path / "model.ckpt-9", config)
    assert "model.ckpt-9" in str(error.value)


@pytest.mark.parametrize("damage", ["index", "data"])
def test_a_damaged_checkpoint_says_which_files_it_needs(
    damage, checkpoint, tmp_path
):
    source = checkpoint("hf_default")
    write_checkpoint(tmp_path / "model.ckpt", tensorflow_arrays(source))
    if damage == "index":
        (tmp_path / "model.ckpt.index").write_bytes(b"short")
    else:
        (tmp_path / "model.ckpt.data-00000-of-00001").unlink()
    config = tensorflow_config(source.config)
    with pytest.raises(ValueError, match="must be whole") as error:
        convert.from_original_tensorflow(tmp_path / "model.ckpt", config)
    assert "PREFIX.data-*" in str(error.value)
    assert str(tmp_path / "model.ckpt") in str(error.value)


def test_weights_that_do_not_fit_are_listed(checkpoint, tmp_path):
    source = checkpoint("hf_default")
    arrays = tensorflow_arrays(source)
    del arrays["transformer/layer_1/rel_attn/o/kernel"]
    arrays["transformer/layer_7/ff/layer_1/bias"] = np.zeros(3, "float32")
    write_checkpoint(tmp_path / "model.ckpt", arrays)
    config = {**tensorflow_config(source.config), "d_inner": 40}
    with pytest.raises(ValueError, match="with 8 that do not fit") as error:
        convert.from_original_tensorflow(tmp_path / "model.ckpt", config)
    for line in (
        "missing: transformer/layer_1/rel_attn/o/kernel, expected (16, 16)",
        "unexpected: transformer/layer_7/ff/layer_1/bias, expected none, "
        "found (3,)",
        "misshapen: transformer/layer_0/ff/layer_1/kernel, expected (16, 40), "
        "found (16, 32)",
    ):
        assert line in str(error.value)
    assert "Adam" not in str(error.value)


def assert_same_losses(lm, other, segments):
    memories = [each.initial_memory(2) for each in (lm, other)]
    for segment in segments:
        ids = segment.inputs, segment.targets
        losses, memories[0] = lm.token_losses(*ids, memories[0])
        expected, memories[1] = other.token_losses(*ids, memories[1])
        assert_close(losses, expected, tolerances.FLOAT32, "losses")
