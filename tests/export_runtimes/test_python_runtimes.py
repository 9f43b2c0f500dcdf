"""OpenVINO and ONNX Runtime GenAI say what Keras says."""

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
    folder = trained[2][DRIVERS[request.param]]

    def call(*words, fails=False):
        done = subprocess.run(
            [sys.executable, script, folder, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == (1 if fails else 0), done.stderr
        return done.stderr if fails else done.stdout

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


def test_a_memory_of_another_model_is_refused(run, tmp_path):
    memory = tmp_path / "memory"
    words = ["--prompt", "A", "--length", 1, "--save-memory", memory]
    run(*words)
    memory.write_bytes(memory.read_bytes()[:-40])
    assert run("--load-memory", memory, fails=True).startswith("generate_")
