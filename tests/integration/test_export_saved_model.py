"""From a model folder to served files, as a user does it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_txl.cli.main import main
from keras_txl.export.serving import LocalSavedModel
from keras_txl.export.serving import generate_text

pytestmark = pytest.mark.backend("tensorflow")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def preset(make_lm, tmp_path_factory):
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    lm = make_lm(vocabulary_size=256, num_layers=1)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    folder = tmp_path_factory.mktemp("model")
    lm.save_to_preset(str(folder))
    return folder


def test_the_command_line_exports_and_tells_what_travels(
    preset, tmp_path, capsys
):
    output = tmp_path / "tale"
    words = ["export", "saved-model", preset, "--output", output]
    options = ["--version", 3, "--memory-length", 4, "--memory-format", "int8"]
    assert main([str(word) for word in words + options]) == 0
    told = capsys.readouterr().out
    assert f"Wrote {output}/3: " in told
    # 4 ids and lengths of 4 bytes, 4 slots of 8 numbers and a scale each.
    assert "sends 60 bytes and receives 1,076" in told
    manifest = json.loads((output / "3" / "manifest.json").read_text())
    assert manifest["memory_format"] == "int8"
    assert manifest["model"]["memory_length"] == 4
    server = LocalSavedModel(output / "3")
    (text,) = generate_text(server, ["It "], max_new_tokens=2, temperature=0.0)
    assert text.startswith("It ")
    assert main([str(word) for word in words + options]) == 1
    assert "Leave `version` out" in capsys.readouterr().err


def test_the_recipe_exports_and_reads_a_stream(preset, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "export/to_saved_model.py", preset, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    first, second, *reads = done.stdout.splitlines()
    assert first == f"wrote {tmp_path}/1"
    assert second == "generate, generate_text, initial_memory, score, step"
    assert [line.split()[0] for line in reads] == ["1", "4"]
