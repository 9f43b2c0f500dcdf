"""Nothing overwritten unasked, nothing left half-written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import keras_txl
from keras_txl.cli.output_folder import check_output
from keras_txl.export.staging import staged_folder

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


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


def test_termination_leaves_nothing(tmp_path):
    code = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from keras_txl.cli.main import terminating_in_order\n"
        "from keras_txl.export.staging import staged_folder\n"
        "with terminating_in_order(), staged_folder(Path(sys.argv[1])) as s:\n"
        "    (s / 'file').touch()\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
    )
    source = str(Path(keras_txl.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert names(tmp_path) == []


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


def test_folder_that_cannot_be_made_is_told_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PermissionError, match="may be written.*Choose"):
        check_output(tmp_path / "file" / "out", False, "")
    check_output(tmp_path / "new" / "out", False, "")
