"""The driver in Python, which knows the model only by its files."""

import importlib
import itertools
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.backend("tensorflow")

PROMPT = "Né on Ω"
TOKENS = 2000  # 333 turns of the ring


@pytest.fixture(scope="module")
def script(repository):
    return repository / "export" / "edge" / "python" / "transformer_xl.py"


@pytest.fixture(scope="module")
def driver(script):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(script.parent)
        return importlib.import_module("transformer_xl")


@pytest.fixture(scope="module")
def model(driver, onnx_folders):
    return driver.TransformerXL(onnx_folders["kv_ring"], num_threads=1)


@pytest.fixture
def folder(onnx_folders, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(onnx_folders["kv_ring"], tmp_path / "model")


def test_a_greedy_stream_is_that_of_keras_token_by_token(byte_lm, model):
    prompt_ids = list(PROMPT.encode())
    said = model.generate_ids(
        prompt_ids, model.new_memory(), TOKENS, temperature=0
    )
    stream = byte_lm.generate_stream(
        prompt_ids, sampler="greedy", max_new_tokens=TOKENS, tokens_per_call=500
    )
    expected = np.concatenate(list(stream), axis=1)[0].tolist()
    assert list(said) == expected
    assert len(set(expected)) > 3  # not one byte for ever


def test_a_saved_stream_goes_on_as_if_nothing_had_happened(model, tmp_path):
    settings = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}
    whole = list(
        model.generate_ids([65], model.new_memory(seed=5), 60, **settings)
    )
    memory = model.new_memory(seed=5)
    first = list(model.generate_ids([65], memory, 25, **settings))
    model.save_memory(tmp_path / "memory", memory)
    memory = model.load_memory(tmp_path / "memory")
    assert [p.name for p in tmp_path.iterdir()] == ["memory"]
    rest = list(model.generate_ids([], memory, 35, **settings))
    assert first + rest == whole
    other = model.generate_ids([65], model.new_memory(seed=6), 60, **settings)
    assert list(other) != whole


def test_memory_keeps_its_size(model, tmp_path):
    memory = model.new_memory()
    sizes = set()
    for index, _ in enumerate(model.generate_ids([1], memory)):
        if index % 10 == 0:
            model.save_memory(tmp_path / "memory", memory)
            sizes.add((tmp_path / "memory").stat().st_size // 100)
        if index == 100:
            break
    assert len(sizes) == 1


def frequencies(driver, model, logits, **settings):
    memory = model.new_memory(seed=1)
    drawn = [
        driver.draw(np.array(logits, "float32"), memory, **settings)
        for _ in range(4000)
    ]
    return np.bincount(drawn, minlength=len(logits)) / len(drawn)


def test_draws_have_the_shares_of_the_distribution(driver, model):
    logits = np.log([0.1, 0.4, 0.2, 0.3])
    plain = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
    for settings, expected in (
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"temperature": 0.5}, np.array([1, 16, 4, 9]) / 30),
        ({"temperature": 0.0}, [0, 1, 0, 0]),
        ({"top_k": 3, "top_p": 0.5}, [0, 4 / 7, 0, 3 / 7]),
    ):
        found = frequencies(driver, model, logits, **{**plain, **settings})
        np.testing.assert_allclose(found, expected, atol=0.03)


def test_random_numbers_are_those_of_the_published_generator(driver, model):
    memory = model.new_memory(seed=1)
    found = [memory.next_random() for _ in range(3)]
    # Values of mulberry32(1) in JavaScript.
    expected = [0.6270739405881613, 0.002735721180215478, 0.5274470399599522]
    assert found == expected


def test_ids_and_settings_out_of_range_are_refused(model):
    for ids in ([256], [-1], []):
        with pytest.raises(ValueError, match="Token ids must be from 0 to 255"):
            model.read(ids, model.new_memory())
    nan = float("nan")
    for settings in (
        {"temperature": -1},
        {"temperature": nan},
        {"top_p": 0},
        {"top_k": -1},
    ):
        with pytest.raises(ValueError, match="Received: temperature="):
            next(model.generate_ids([1], model.new_memory(), **settings))


def test_a_memory_of_another_model_or_cut_short_is_refused(
    driver, model, folder, tmp_path
):
    path = tmp_path / "memory"
    model.save_memory(path, model.new_memory())
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["weights"] = "0" * 32
    (folder / "manifest.json").write_text(json.dumps(manifest))
    other = driver.TransformerXL(folder)
    with pytest.raises(ValueError, match="belongs to another model"):
        other.load_memory(path)
    data = path.read_bytes()
    renamed = data.replace(b'"position"', b'"elsewhere"')
    for damaged in (data[:-4], data[:40], b"", b"x" + data, renamed):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="memory file is damaged"):
            model.load_memory(path)


def test_a_folder_that_is_not_whole_is_refused(driver, folder, onnx_folders):
    with pytest.raises(ValueError, match="Export with --flavour kv_ring"):
        driver.TransformerXL(onnx_folders["hidden"])
    data = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(data[:-1])
    with pytest.raises(ValueError, match="cut short"):
        driver.TransformerXL(folder)
    for text in ("{", "null", "[]"):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match="must hold a manifest.json"):
            driver.TransformerXL(folder)


def run(script, *words):
    return subprocess.run(
        [sys.executable, script, *map(str, words)],
        capture_output=True,
        text=True,
    )


def test_the_command_line_needs_no_keras(script, onnx_folders, model, tmp_path):
    sentinel = tmp_path / "keras.py"
    sentinel.write_text("raise SystemExit('keras was imported')")
    (tmp_path / "tensorflow.py").write_text(sentinel.read_text())
    (tmp_path / "keras_txl.py").write_text(sentinel.read_text())
    # Their folder comes first on the path.
    shutil.copy(script.with_name("texts.py"), tmp_path)
    copy = shutil.copy(script, tmp_path)
    folder, memory = onnx_folders["kv_ring"], tmp_path / "memory"
    words = ["--prompt", "A", "--length", 20, "--seed", 3]
    done = run(copy, folder, *words, "--save-memory", memory)
    assert (done.returncode, done.stderr) == (0, "")
    stream = model.generate("A", model.new_memory(seed=3), max_new_tokens=20)
    assert done.stdout == "".join(stream) + "\n"
    done = run(copy, folder, "--length", 5, "--load-memory", memory)
    assert done.returncode == 0
    for bad in (["--length", -1], ["--save-memory", memory / "in"]):
        done = run(copy, folder, *bad)
        assert (done.returncode, done.stdout) == (2, "")
    assert "folder of a memory must exist" in done.stderr
    done = run(copy, tmp_path)
    assert done.returncode == 1
    assert "must hold a manifest.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_text_is_whole_characters(model):
    pieces = itertools.islice(model.generate("é", model.new_memory(seed=2)), 50)
    assert all(piece == piece.encode().decode() for piece in pieces)
