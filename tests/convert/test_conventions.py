"""Each source's conventions arrive as arguments of the backbone."""

import pytest

from keras_txl import convert


def test_original_pytorch(checkpoint):
    backbone = checkpoint("kim_same_length").convert().backbone
    assert backbone.attention_window == "memory_length"
    assert backbone.attend_empty_memory is False
    assert backbone.share_attention_biases is True
    assert backbone.layer_norm_epsilon == 1e-5
    assert backbone.clamp_length is None
    assert backbone.memory_length == 8


def test_original_pytorch_switches(checkpoint):
    source = checkpoint("kim_clamp")
    assert source.convert().backbone.clamp_length == source.config["clamp_len"]
    assert checkpoint("kim_prelnorm_memlong").convert().backbone.normalize_first


def test_huggingface(checkpoint):
    source = checkpoint("hf_same_length_clamp")
    backbone = source.convert().backbone
    assert backbone.attention_window == "memory_length"
    assert backbone.attend_empty_memory is True
    assert backbone.share_attention_biases is False
    assert backbone.clamp_length == 6
    assert backbone.memory_length == 12


def test_huggingface_reads_keys_of_old_and_new_files(checkpoint):
    """Files hold much that does not change the model; it is no error."""
    source = checkpoint("hf_default")
    config = {
        **source.config,
        "architectures": ["TransfoXLLMHeadModel"],
        "model_type": "transfo-xl",
        "tie_weight": True,
        "tie_projs": [False],
        "tgt_len": 128,
        "ext_len": 0,
        "init_std": 0.01,
        "torch_dtype": "float32",
        "transformers_version": "4.37.2",
        "task_specific_params": {"text-generation": {"do_sample": True}},
    }
    assert source.convert(config).backbone.initializer_range == 0.01


def test_huggingface_norm_epsilon_is_read(checkpoint):
    source = checkpoint("hf_default")
    config = {**source.config, "layer_norm_epsilon": 1e-3, "cutoffs": None}
    assert source.convert(config).backbone.layer_norm_epsilon == 1e-3


@pytest.mark.parametrize("name", ["kim_default", "hf_default"])
def test_extended_context_is_refused(name, checkpoint):
    source = checkpoint(name)
    with pytest.raises(ValueError, match="no extended context") as error:
        source.convert({**source.config, "ext_len": 4})
    assert "ext_len=4. Pass ext_len=0 and a mem_len" in str(error.value)


@pytest.mark.parametrize("name", ["kim_default", "hf_default"])
def test_sampled_softmax_is_refused(name, checkpoint):
    source = checkpoint(name)
    with pytest.raises(ValueError, match="cannot run as released"):
        source.convert({**source.config, "sample_softmax": 100})


def test_huggingface_has_one_attention(checkpoint):
    source = checkpoint("hf_default")
    with pytest.raises(ValueError, match="from_original_pytorch"):
        source.convert({**source.config, "attn_type": 1})


def test_unknown_attention_is_refused(checkpoint):
    source = checkpoint("kim_default")
    with pytest.raises(ValueError, match="0, 1, 2 or 3. Received: attn_type=4"):
        source.convert({**source.config, "attn_type": 4})


def test_learned_tables_need_the_segment_length(checkpoint):
    source = checkpoint("kim_attn1")
    config = {**source.config, "tgt_len": None}
    with pytest.raises(ValueError, match="tgt_len . mem_len rows"):
        source.convert(config)


@pytest.mark.parametrize("name", ["kim_default", "hf_default"])
def test_unknown_keys_are_named(name, checkpoint):
    source = checkpoint(name)
    config = {**source.config, "d_modle": 16, "window": 3}
    with pytest.raises(ValueError, match="unknown keys: d_modle, window"):
        source.convert(config)


def test_missing_keys_are_named(checkpoint):
    source = checkpoint("kim_default")
    config = {
        key: value
        for key, value in source.config.items()
        if key not in ("d_head", "n_token")
    }
    with pytest.raises(ValueError, match="missing keys: n_token, d_head"):
        source.convert(config)


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ({"share_attention_biases": False}, "share_attention_biases=False"),
        ({"layer_norm_epsilon": 1e-12}, "layer_norm_epsilon=1e-12"),
        ({"activation": "gelu"}, "activation='gelu'"),
        ({"attend_empty_memory": True}, "attend_empty_memory=True"),
        ({"position": "none"}, "position='none'"),
    ],
)
def test_what_the_original_cannot_compute_is_not_written(
    argument, found, make_lm
):
    with pytest.raises(ValueError, match="original PyTorch code has") as error:
        convert.to_original_pytorch(make_lm(**argument))
    assert found in str(error.value)
