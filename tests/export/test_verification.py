"""`keras-txl export verify`: artifacts of every kind, checked once more."""

import shutil

import numpy as np
import onnx
import pytest

from keras_txl.cli.main import main
from keras_txl.export import ExportMismatchError
from keras_txl.export import verify_export
from keras_txl.export.manifest import read_manifest
from keras_txl.export.manifest import write_manifest

pytestmark = pytest.mark.backend("tensorflow")


def test_the_command_line_tells_the_differences(
    byte_lm, onnx_folders, tmp_path, capsys
):
    preset = tmp_path / "model"
    byte_lm.save_to_preset(str(preset))
    words = [
        "export",
        "verify",
        str(onnx_folders["kv"]),
        "--model",
        str(preset),
    ]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Largest difference to the Keras model: logits ")
    assert main([*words[:2], str(tmp_path), *words[3:]]) == 1
    assert "must have a manifest.json" in capsys.readouterr().err


def test_a_saved_model_is_verified(exported):
    lm, folder = exported
    errors = verify_export(folder, lm)["max_abs_error"]
    assert 0 < max(errors.values()) <= 1e-5


def test_other_weights_and_damaged_files_are_told(
    byte_lm, make_lm, onnx_folders, tmp_path
):
    folder = shutil.copytree(onnx_folders["kv_ring"], tmp_path / "model")
    with pytest.raises(ValueError, match="must have the weights of the model"):
        verify_export(folder, make_lm(vocabulary_size=256))
    model = onnx.load(folder / "model.onnx")
    for tensor in model.graph.initializer:
        if list(tensor.dims) == [2, 7, 4]:  # distances off by one
            rows = np.roll(onnx.numpy_helper.to_array(tensor), 1, axis=1)
            tensor.CopyFrom(onnx.numpy_helper.from_array(rows, tensor.name))
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(ValueError, match="model.onnx is another file"):
        verify_export(folder, byte_lm)
    manifest = read_manifest(folder)
    write_manifest(folder, manifest)  # as if it had been exported
    with pytest.raises(ExportMismatchError, match="logits of"):
        verify_export(folder, byte_lm)
    write_manifest(folder, {**manifest, "target": "paper"})
    with pytest.raises(ValueError, match="one of .*'paper' in .* that wrote"):
        verify_export(folder, byte_lm)
