"""Which model a path on the command line means."""

import pytest

from keras_txl.cli.model_folder import find_model

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def test_a_preset_folder_and_an_output_folder_are_found(tmp_path):
    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "config.json").write_text("{}")
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    assert find_model(tmp_path / "preset") == tmp_path / "preset"
    assert find_model(tmp_path / "run") == tmp_path / "run" / "model"


def test_of_two_models_none_is_taken(tmp_path):
    """`convert --overwrite` into the folder of a run leaves two."""
    (tmp_path / "model").mkdir()
    for folder in (tmp_path, tmp_path / "model"):
        (folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="which holds two") as error:
        find_model(tmp_path)
    assert repr(str(tmp_path / "model")) in str(error.value)
    assert find_model(tmp_path / "model") == tmp_path / "model"
