"""The checkpoint file: whole or not at all, and never pickle."""

import numpy as np
import pytest

from keras_txl.training import read_checkpoint
from keras_txl.training import write_checkpoint
from keras_txl.training.checkpoint_file import CHECKPOINT_NAME


def test_what_was_written_is_read(tmp_path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b/c": np.float32(2.5)}
    state = {"step": 3, "text": "é"}
    write_checkpoint(tmp_path / "new", arrays, state)
    found, told = read_checkpoint(tmp_path / "new")
    assert told == state
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_write_that_fails_leaves_the_checkpoint_before_it(
    tmp_path, monkeypatch
):
    write_checkpoint(tmp_path, {"a": np.ones(2)}, {"step": 1})

    def dies_half_way(file, **_):
        file.write(b"PK half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", dies_half_way)
    with pytest.raises(OSError, match="disk full"):
        write_checkpoint(tmp_path, {"a": np.zeros(2)}, {"step": 2})
    assert read_checkpoint(tmp_path)[1] == {"step": 1}
    assert [p.name for p in tmp_path.iterdir()] == [CHECKPOINT_NAME]


def test_what_needs_pickle_is_refused(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle"):
        write_checkpoint(tmp_path, {"a": np.array([object()])}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_damaged_file_is_told_so(tmp_path, keep):
    path = write_checkpoint(tmp_path, {"a": np.ones(100)}, {"step": 1})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is damaged"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("offset", [8, 10])
def test_a_changed_bit_in_the_directory_is_told_so(tmp_path, offset):
    """Flags that say "encrypted", and a compression that does not exist."""
    path = write_checkpoint(tmp_path, {"a": np.ones(3)}, {"step": 1})
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"PK\1\2") + offset] |= 17
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="is damaged"):
        read_checkpoint(tmp_path)


def test_a_file_of_another_kind_is_told_so(tmp_path):
    with open(tmp_path / CHECKPOINT_NAME, "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(ValueError, match="is damaged"):
        read_checkpoint(tmp_path)


def test_another_format_is_told_so(tmp_path):
    write_checkpoint(tmp_path, {}, {"format": 99})
    with pytest.raises(ValueError, match="format 99"):
        read_checkpoint(tmp_path)
