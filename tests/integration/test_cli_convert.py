"""`keras-txl convert`, run as a user runs it."""

import json

import numpy as np
import pytest

from keras_txl.cli.main import main
from keras_txl.models import TransformerXLCausalLM
from tests.convert.checkpoints import assert_losses
from tests.convert.checkpoints import read_checkpoint
from tests.convert.tensorflow_checkpoints import tensorflow_arrays
from tests.convert.tensorflow_checkpoints import tensorflow_config
from tests.convert.tensorflow_checkpoints import write_checkpoint


def write_folder(name, folder):
    source = read_checkpoint(name)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(source.config))
    np.savez(folder / "weights.npz", **source.weights)
    return source


@pytest.mark.parametrize(
    ("kind", "name"),
    [("original-pytorch", "kim_default"), ("huggingface", "hf_default")],
)
def test_a_folder_becomes_a_model_with_the_same_losses(
    kind, name, tmp_path, capsys
):
    source = write_folder(name, tmp_path / "source")
    output = tmp_path / "model"
    code = main(
        ["convert", kind, str(tmp_path / "source"), "--output", str(output)]
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "attends to empty memory: " in printed
    assert "memory length: 8" in printed
    lm = TransformerXLCausalLM.from_preset(str(output))
    assert_losses(lm, source.segments, name)
    assert main(["inspect", str(output), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert f"{facts['parameters']:,} parameters" in printed


def test_a_tensorflow_checkpoint_with_a_longer_memory(tmp_path, capsys):
    source = read_checkpoint("hf_default")
    write_checkpoint(tmp_path / "model.ckpt-0", tensorflow_arrays(source))
    config = tmp_path / "flags.json"
    config.write_text(json.dumps(tensorflow_config(source.config)))
    code = main(
        ["convert", "original-tensorflow", str(tmp_path / "model.ckpt-0")]
        + ["--config", str(config), "--output", str(tmp_path / "model")]
        + ["--memory-length", "30"]
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "memory length: 30" in printed
    assert "layer norm epsilon: 1e-12" in printed


def test_a_weight_file_needs_a_configuration(tmp_path, capsys):
    source = write_folder("kim_default", tmp_path / "source")
    weights = str(tmp_path / "source" / "weights.npz")
    arguments = ["convert", "original-pytorch", weights]
    arguments += ["--output", str(tmp_path / "model")]
    assert main(arguments) == 1
    assert "--config is needed" in capsys.readouterr().err
    config = str(tmp_path / "source" / "config.json")
    assert main([*arguments, "--config", config]) == 0
    lm = TransformerXLCausalLM.from_preset(str(tmp_path / "model"))
    assert_losses(lm, source.segments, "kim_default")


def test_a_model_is_replaced_only_on_request(tmp_path, capsys):
    write_folder("kim_default", tmp_path / "source")
    output = tmp_path / "model"
    output.mkdir()
    (output / "config.json").write_text("{}")
    arguments = ["convert", "original-pytorch", str(tmp_path / "source")]
    arguments += ["--output", str(output)]
    assert main(arguments) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert json.loads((output / "config.json").read_text())


def test_weights_that_do_not_fit_leave_no_model(tmp_path, capsys):
    source = write_folder("kim_default", tmp_path / "source")
    config = {**source.config, "d_inner": 33}
    (tmp_path / "source" / "config.json").write_text(json.dumps(config))
    code = main(
        ["convert", "original-pytorch", str(tmp_path / "source")]
        + ["--output", str(tmp_path / "model")]
    )
    assert code == 1
    error = capsys.readouterr().err
    assert "misshapen: layers.0.pos_ff.CoreNet.0.weight" in error
    assert "Traceback" not in error
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["huggingface", "nothing"], "no such checkpoint"),
        (["original-tensorflow", "model.ckpt"], "and without .index"),
        (["huggingface", ".", "--config", "none.json"], "must be a file"),
    ],
)
def test_what_is_not_there_is_named(arguments, told, tmp_path, capsys):
    output = ["--output", str(tmp_path / "model")]
    assert main(["convert", *arguments, *output]) == 1
    assert told in capsys.readouterr().err


def test_an_unknown_kind_is_wrong_usage(tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        main(["convert", "onnx", "model", "--output", str(tmp_path / "m")])
    assert error.value.code == 2
    assert "original-tensorflow" in capsys.readouterr().err
