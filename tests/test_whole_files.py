"""A text file is there whole or not at all."""

from pathlib import Path

import pytest

from keras_txl.whole_files import write_whole

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def test_a_failed_write_leaves_the_earlier_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, "one\r\n\u00e9")
    assert path.read_bytes() == b"one\r\n\xc3\xa9"

    def half(self, text, **_):
        self.write_bytes(text.encode()[:3])
        raise OSError("full")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="full"):
        write_whole(path, "another")
    assert path.read_bytes() == b"one\r\n\xc3\xa9"
    assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]
