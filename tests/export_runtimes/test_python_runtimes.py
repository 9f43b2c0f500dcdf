"""OpenVINO and ONNX Runtime GenAI say what Keras says."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.export_runtimes.edge_models import PROMPT
from tests.export_runtimes.edge_models import TOKENS

pytestmark = pytest.mark.backend("tensorflow")

DRIVERS = {"generate_openvino.py": "hidden", "generate_genai.py": "kv"}


@pytest.fixture(params=DRIVERS)
def run(request, trained, repository):
    """Calls a driver on its flavour: `run(*words)` gives what it printed."""
    script = repository / "export" / "edge" / "python" / request.param
    exported = trained[2][DRIVERS[request.param]]

    def call(*words, folder=exported, fails=False):
        done = subprocess.run(
            [sys.executable, script, folder, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == (1 if fails else 0), done.stderr
        return done.stderr if fails else done.stdout

    call.folder = exported
    return call


def test_a_greedy_stream_is_that_of_keras_token_by_token(trained, run):
    expected = bytes(trained[1]).decode("utf-8", "replace") + "\n"
    words = ["--prompt", PROMPT, "--length", TOKENS, "--temperature", 0]
    assert run(*words) == expected


def test_a_saved_stream_goes_on_as_if_nothing_had_happened(
    trained, run, tmp_path
):
    greedy = ["--temperature", 0]
    memory = tmp_path / "memory"
    words = ["--prompt", PROMPT, "--length", 150, "--save-memory", memory]
    first = run(*words, *greedy)[:-1]
    rest = run("--load-memory", memory, "--length", 100, *greedy)
    assert first + rest == bytes(trained[1][:250]).decode() + "\n"


def test_seeds_draw_different_text_and_the_same_again(run):
    words = ["--prompt", PROMPT, "--length", 60, "--top-k", 60, "--top-p", 0.99]
    one, again, other = (run(*words, "--seed", seed) for seed in (3, 3, 4))
    assert one == again != other


def test_what_does_not_fit_is_told(run, tmp_path):
    memory = tmp_path / "memory"
    words = ["--prompt", "A", "--length", 1]
    run(*words, "--save-memory", memory)
    told = run(*words, "--temperature", "nan", fails=True)
    assert "Received: temperature=nan" in told
    folder = shutil.copytree(run.folder, tmp_path / "other")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["weights"] = "0"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    told = run("--load-memory", memory, folder=folder, fails=True)
    assert "belongs to another model" in told
    for damaged in (memory.read_bytes()[:-40], b"no memory"):
        memory.write_bytes(damaged)
        told = run("--load-memory", memory, fails=True)
        assert "memory file is damaged" in told and "pickle" not in told
