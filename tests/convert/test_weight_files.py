"""Every form in which a checkpoint may come, and what is refused."""

import json
import os

import numpy as np
import pytest

from keras_txl.convert.weight_files import read_arrays
from keras_txl.convert.weight_files import read_source
from tests.tolerances import to_numpy


@pytest.fixture(params=["kim_default", "hf_default"])
def source(request, checkpoint):
    return checkpoint(request.param)


def write_config(source, folder):
    path = folder / "config.json"
    path.write_text(json.dumps(source.config))
    return path


def assert_converted(lm, source):
    assert np.array_equal(
        to_numpy(lm.output_bias.bias), source.weights["crit.out_layers.0.bias"]
    )
    assert np.array_equal(
        to_numpy(lm.backbone.token_embedding.embeddings),
        source.weights["crit.out_layers.0.weight"],
    )


def test_npz_with_a_configuration_beside_it(source, tmp_path):
    config = write_config(source, tmp_path)
    np.savez(tmp_path / "other.npz", **source.weights)
    assert_converted(source.convert(config, tmp_path / "other.npz"), source)


def test_half_precision_safetensors_are_widened(source, tmp_path):
    import ml_dtypes
    from safetensors.numpy import save_file

    name = "crit.out_layers.0.bias"
    weights = dict(source.weights)
    weights[name] = weights[name].astype(ml_dtypes.bfloat16)
    save_file(weights, tmp_path / "model.safetensors")
    lm = source.convert(weights=tmp_path)
    expected = weights[name].astype("float32")
    assert np.array_equal(to_numpy(lm.output_bias.bias), expected)


def test_npz_in_a_folder(source, tmp_path):
    write_config(source, tmp_path)
    np.savez(tmp_path / "weights.npz", **source.weights)
    assert_converted(source.convert(str(tmp_path), tmp_path), source)


def test_safetensors_in_a_folder(source, tmp_path):
    from safetensors.numpy import save_file

    write_config(source, tmp_path)
    save_file(source.weights, tmp_path / "model.safetensors")
    config, arrays, name = read_source(tmp_path, None)
    assert name == str(tmp_path)
    assert_converted(source.convert(config, arrays), source)
    assert_converted(source.convert(source.config, tmp_path), source)


@pytest.mark.backend("torch")
@pytest.mark.parametrize("ending", [".bin", ".pt", ".pth"])
def test_pytorch_state_dict(ending, source, tmp_path):
    import torch

    write_config(source, tmp_path)
    tensors = {
        name: torch.from_numpy(array) for name, array in source.weights.items()
    }
    torch.save(tensors, tmp_path / f"pytorch_model{ending}")
    assert_converted(
        source.convert(tmp_path, tmp_path / f"pytorch_model{ending}"), source
    )


@pytest.mark.backend("torch")
def test_pytorch_state_dict_in_a_folder_and_as_a_mapping(source, tmp_path):
    import torch

    write_config(source, tmp_path)
    tensors = {
        name: torch.nn.Parameter(torch.from_numpy(array))
        for name, array in source.weights.items()
    }
    assert_converted(source.convert(weights=tensors), source)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    assert_converted(source.convert(tmp_path, tmp_path), source)


@pytest.mark.backend("torch")
def test_half_precision_tensors_are_widened(checkpoint):
    import torch

    source = checkpoint("kim_default")
    tensors = {
        name: torch.from_numpy(array).bfloat16()
        if name != "pos_emb.inv_freq"
        else torch.from_numpy(array)
        for name, array in source.weights.items()
    }
    lm = source.convert(weights=tensors)
    bias = tensors["crit.out_layers.0.bias"].float().numpy()
    assert np.array_equal(to_numpy(lm.output_bias.bias), bias)


@pytest.mark.backend("torch")
def test_pickled_objects_are_not_run(source, tmp_path):
    import torch

    class Model:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "was_run"),)

    torch.save(Model(), tmp_path / "model.pt")
    with pytest.raises(ValueError, match="model.state_dict") as error:
        source.convert(weights=tmp_path / "model.pt")
    assert str(tmp_path / "model.pt") in str(error.value)
    assert not (tmp_path / "was_run").exists()


@pytest.mark.backend("torch")
def test_a_checkpoint_of_more_than_tensors_is_refused(source, tmp_path):
    import torch

    torch.save({"model": {"a": torch.zeros(1)}}, tmp_path / "all.pt")
    with pytest.raises(ValueError, match="no dict of tensors"):
        source.convert(weights=tmp_path / "all.pt")


def test_pickled_arrays_are_not_loaded(source, tmp_path):
    array = np.empty(1, dtype=object)
    array[0] = {"a": 1}
    np.savez(tmp_path / "weights.npz", a=array)
    with pytest.raises(ValueError, match="file of named arrays") as error:
        source.convert(weights=tmp_path / "weights.npz")
    assert "or holds objects" in str(error.value)
    assert "allow_pickle" not in str(error.value)  # no advice to run it


@pytest.mark.parametrize("name", ["model.safetensors", "weights.npz"])
def test_damaged_files_are_named(name, source, tmp_path):
    (tmp_path / name).write_bytes(b"not this format at all")
    with pytest.raises(ValueError, match="file of named arrays") as error:
        source.convert(weights=tmp_path / name)
    assert name in str(error.value)


def test_other_endings_are_refused(tmp_path):
    (tmp_path / "model.h5").write_bytes(b"")
    with pytest.raises(ValueError, match="must end in .safetensors, .bin"):
        read_arrays(tmp_path / "model.h5")


def test_missing_files_are_named(source, tmp_path):
    with pytest.raises(FileNotFoundError, match="`weights` must be"):
        source.convert(weights=tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError, match="`config` must be"):
        source.convert(config=tmp_path, weights=source.weights)


def test_a_folder_without_weights_says_what_it_looked_for(source, tmp_path):
    write_config(source, tmp_path)
    with pytest.raises(FileNotFoundError, match="pytorch_model.bin") as error:
        source.convert(weights=tmp_path)
    assert "model.safetensors" in str(error.value)


def test_weights_may_be_left_out_for_a_folder_alone(tmp_path):
    with pytest.raises(ValueError, match="only if `config` is a folder"):
        read_source({"n_layer": 2}, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [("{n_layer: 2}", "must be a JSON file"), ("[1]", "holds a list")],
)
def test_a_bad_configuration_file_is_named(text, told, source, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=told) as error:
        source.convert(config=path)
    assert "config.json" in str(error.value)


def test_a_missing_package_says_how_to_install_it(
    source, tmp_path, monkeypatch
):
    (tmp_path / "model.safetensors").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-txl\[convert\]"):
        source.convert(weights=tmp_path)
