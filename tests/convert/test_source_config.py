"""Configurations that do not fit, and what a user is told about them."""

import json

import pytest

from keras_txl.convert.weight_files import read_config
from tests.convert.checkpoints import assert_losses

pytestmark = pytest.mark.backend("tensorflow")  # nothing here computes much


@pytest.mark.parametrize("name", ["kim_proj_tied_noadapt", "kim_untied_proj"])
def test_div_val_means_nothing_without_cutoffs(name, checkpoint):
    source = checkpoint(name)
    lm = source.convert({**source.config, "div_val": 2})
    assert_losses(lm, source.segments, name)


@pytest.mark.parametrize("name", ["kim_default", "hf_default"])
def test_a_projection_between_equal_widths_is_refused(name, checkpoint):
    """Both PyTorch codes make one for every `div_val` but 1."""
    source = checkpoint(name)
    config = {**source.config, "div_val": 4, "cutoffs": []}
    with pytest.raises(ValueError, match="`div_val` must be 1") as error:
        source.convert(config)
    assert "div_val=4, d_embed=16, d_model=16, no cutoffs" in str(error.value)
    assert "table @ projection.T" in str(error.value)


@pytest.mark.parametrize("name", ["kim_default", "hf_default"])
def test_values_of_another_type_are_listed(name, checkpoint):
    source = checkpoint(name)
    wrong = {
        "n_layer": "2",
        "d_head": 8.5,
        "same_length": "yes",
        "dropout": "none",
        "cutoffs": 20,
        "clamp_len": True,
    }
    with pytest.raises(ValueError, match="values of the types") as error:
        source.convert({**source.config, **wrong})
    for told in (
        "n_layer='2' (must be an integer)",
        "d_head=8.5 (must be an integer)",
        "same_length='yes' (must be true or false)",
        "dropout='none' (must be a number)",
        "cutoffs=20 (must be a list)",
        "clamp_len=True (must be an integer)",
    ):
        assert told in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"d_head": 0}, "In `config`, `head_dim` is d_head."),
        ({"n_layer": -1}, "In `config`, `num_layers` is n_layer."),
        ({"d_model": 15}, "`hidden_dim` is d_model"),
        ({"cutoffs": [90]}, "is n_token or vocab_size."),
    ],
)
def test_errors_say_what_the_source_calls_an_argument(wrong, told, checkpoint):
    source = checkpoint("kim_default")
    with pytest.raises(ValueError, match="In `config`") as error:
        source.convert({**source.config, **wrong})
    assert told in str(error.value)


def test_an_override_keeps_its_own_name(checkpoint):
    source = checkpoint("kim_default")
    with pytest.raises(ValueError, match="`memory_length`") as error:
        source.convert(memory_length=-1)
    assert "mem_len" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "as one JSON object"),
        (json.dumps([1]), 'Write it as {"n_layer": 12, ...}.'),
    ],
)
def test_files_that_are_no_configuration_say_what_is_one(text, told, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="`config` must") as error:
        read_config(path)
    assert told in str(error.value)
