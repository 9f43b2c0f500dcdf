"""Nothing overwritten unasked, nothing left half-written."""

import pytest

from keras_txl.cli.output_folder import check_output
from keras_txl.cli.output_folder import staged_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_success_moves_everything_into_place(tmp_path):
    with staged_folder(tmp_path / "a" / "out") as stage:
        (stage / "file").write_text("new")
        assert not (tmp_path / "a" / "out").exists()
    assert names(tmp_path / "a") == ["out"]
    assert (tmp_path / "a" / "out" / "file").read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_leaves_everything_as_it_was(tmp_path, error):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("old")
    with pytest.raises(error):
        with staged_folder(tmp_path / "out") as stage:
            (stage / "file").write_text("new")
            raise error
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "file").read_text() == "old"


def test_entries_of_the_same_name_are_replaced_and_others_stay(tmp_path):
    out = tmp_path / "out"
    (out / "model").mkdir(parents=True)
    (out / "model" / "old").touch()
    (out / "other").touch()
    (out / "file").write_text("old")
    with staged_folder(out) as stage:
        (stage / "model").mkdir()
        (stage / "model" / "new").touch()
        (stage / "file").write_text("new")
    assert names(out) == ["file", "model", "other"]
    assert names(out / "model") == ["new"]
    assert (out / "file").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_a_new_and_an_empty_folder_are_accepted(tmp_path):
    check_output(tmp_path / "new", False, "")
    check_output(tmp_path, False, "")


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="Choose another"):
        check_output(tmp_path, False, "Choose another.")
    check_output(tmp_path, True, "")
