"""Which files of a source are read, which are left out, and what is said."""

import os
import warnings

import pytest

from keras_txl.data import text_files
from keras_txl.data.text_files import read_documents

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def read(source, max_bytes=None):
    documents = read_documents(os.fspath(source), max_bytes, seed=0)
    return {document.name: document.data for document in documents}


@pytest.fixture
def unreadable(monkeypatch):
    """Files named secret.txt may not be read, even by root."""

    def refuse(path, limit):
        if path.name == "secret.txt":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path, limit)

    read_bytes = text_files._read_bytes
    monkeypatch.setattr(text_files, "_read_bytes", refuse)


def test_folder_is_read_with_its_folders(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "one.txt").write_bytes(b"one")
    (tmp_path / "deep" / "er" / "two").write_bytes(b"two")
    assert read(tmp_path) == {"one.txt": b"one", "deep/er/two": b"two"}


def test_hidden_files_and_byte_code_are_no_text(tmp_path):
    for name in (".git/config", "__pycache__/a.txt", ".hidden", "seen.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    assert list(read(tmp_path)) == ["seen.txt"]


def test_pipes_in_a_folder_are_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text.txt").write_bytes(b"text")
    assert list(read(tmp_path)) == ["text.txt"]


def test_glob_reads_what_it_matches(tmp_path):
    for name in ("a.txt", "b.md", "sub/c.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    assert set(read(tmp_path / "*.txt")) == {"a.txt"}
    assert set(read(tmp_path / "**" / "*.txt")) == {"a.txt", "sub/c.txt"}


def test_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"text")
    assert read("~/a.txt") == {"a.txt": b"text"}


def test_text_that_is_no_utf8_is_read_as_it_is(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\r\n")
    assert read(tmp_path) == {"latin.txt": b"caf\xe9\r\n"}


def test_binary_file_is_read_when_named_itself(tmp_path):
    (tmp_path / "genome.bin").write_bytes(b"\0\1\2")
    assert read(tmp_path / "genome.bin") == {"genome.bin": b"\0\1\2"}
    assert read(tmp_path / "*.bin") == {"genome.bin": b"\0\1\2"}


def test_one_warning_names_everything_left_out(tmp_path, unreadable):
    (tmp_path / "a.txt").write_bytes(b"text")
    (tmp_path / "copy.txt").write_bytes(b"text")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.warns(UserWarning) as caught:
        assert list(read(tmp_path).values()) == [b"text"]
    (warning,) = caught
    message = str(warning.message)
    assert message.startswith("Left out 3 files of")
    assert "image.png (binary)" in message
    assert "secret.txt (unreadable)" in message
    assert "copy.txt (copy of a.txt)" in message or (
        "a.txt (copy of copy.txt)" in message
    )


def test_long_list_of_left_out_files_is_cut(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"text")
    for number in range(9):
        (tmp_path / f"{number}.png").write_bytes(b"\0")
    with pytest.warns(UserWarning, match="Left out 9 files.* and 4 more"):
        read(tmp_path)


def test_unreadable_folder_inside_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"text")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path):
        if os.path.basename(path) == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.warns(UserWarning, match=r"closed \(unreadable\)"):
        read(tmp_path)


def test_standard_library_is_read_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read("stdlib", max_bytes=50_000)) >= 1


def test_standard_library_without_sources_names_the_way_out(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(
        text_files.sysconfig, "get_path", lambda name: str(tmp_path / "none")
    )
    with pytest.raises(FileNotFoundError, match="Pass a text file, a folder"):
        read("stdlib")


def test_missing_source_names_what_may_be_passed(tmp_path):
    for source in (tmp_path / "none.txt", tmp_path / "*.txt"):
        with pytest.raises(FileNotFoundError, match="Pass the path of a text"):
            read(source)


def test_unreadable_file_names_its_permissions(tmp_path, unreadable):
    (tmp_path / "secret.txt").write_bytes(b"secret")
    with pytest.raises(PermissionError, match="Check its permissions"):
        read(tmp_path / "secret.txt")


def test_unreadable_folder_names_its_permissions(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(PermissionError, match="Check its permissions"):
        read(tmp_path)


def test_pipe_as_source_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="a device or a pipe"):
        read(tmp_path / "pipe")


@pytest.mark.parametrize(
    "files, found",
    [
        ({}, "no files"),
        ({"a.txt": b"", "b.txt": b""}, "2 empty"),
        ({"a.png": b"\0", "b.txt": b""}, "1 binary, 1 empty"),
    ],
)
def test_folder_without_text_says_what_was_found(tmp_path, files, found):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"There is no text.* {found}"):
        read(tmp_path)


def test_empty_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="no text to read.* 1 empty"):
        read(tmp_path / "a.txt")
