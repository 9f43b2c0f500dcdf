"""A memory in a file comes back equal, or with a reason why not."""

import numpy as np
import pytest

from keras_txl.generation import load_memory
from keras_txl.generation import save_memory
from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(memory_dtype="bfloat16")
    randomize(lm, seed=1)
    return lm


@pytest.fixture
def memory(lm):
    _, memory = lm.step(np.array([[1, 2, 3]], "int32"), lm.initial_memory(1))
    return {**memory, "unread_ids": np.array([[4]], "int32")}


def test_a_memory_comes_back_equal(lm, memory, tmp_path):
    path = tmp_path / "memory.npz"
    for _ in range(2):  # an existing file is replaced
        save_memory(path, memory, lm)
    found = load_memory(path, lm)
    assert set(found) == set(memory)
    for name, value in memory.items():
        assert_close(found[name], value, tolerances.EXACT, name)
    assert "bfloat16" in str(found["states"].dtype)
    assert [path.name for path in tmp_path.iterdir()] == ["memory.npz"]


def test_memory_of_the_banks_does_not_count_as_weights(lm, memory, tmp_path):
    save_memory(tmp_path / "memory", memory, lm)
    lm(np.array([[5, 6, 7], [1, 2, 3]], "int32"))
    load_memory(tmp_path / "memory", lm)


def test_memory_of_other_weights_is_refused(lm, memory, make_lm, tmp_path):
    save_memory(tmp_path / "memory", memory, lm)
    for other in (make_lm(), make_lm(num_layers=1)):
        with pytest.raises(ValueError, match="belongs to another model"):
            load_memory(tmp_path / "memory", other)


@pytest.mark.parametrize("damage", ["cut", "text", "pickle", "other"])
def test_a_damaged_file_is_refused(lm, memory, tmp_path, damage):
    path = tmp_path / "memory"
    save_memory(path, memory, lm)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "text":
        path.write_text("no memory")
    elif damage == "pickle":
        with path.open("wb") as file:
            np.savez(file, fingerprint="", states=np.array([{}], object))
    else:
        with path.open("wb") as file:
            np.savez(file, length=np.zeros(1))
    with pytest.raises(ValueError, match="is damaged, or no memory file"):
        load_memory(path, lm)


def test_a_missing_file_says_so(lm, tmp_path):
    with pytest.raises(FileNotFoundError):
        load_memory(tmp_path / "none", lm)


def test_what_is_no_memory_is_not_written(lm, tmp_path):
    with pytest.raises(ValueError, match="must be a dict of states"):
        save_memory(tmp_path / "memory", {"length": 0}, lm)
    assert list(tmp_path.iterdir()) == []
