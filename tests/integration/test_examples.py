"""Every example runs with a tiny budget, and says what it promises to say."""

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    # What they call is tested on every backend.
    pytest.mark.backend("tensorflow"),
    # What `eagerly` cannot reach.
    pytest.mark.filterwarnings("ignore:Even though the .tf.config"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Returns `run(name, words)`: what an example prints."""

    def run_example(name, words):
        monkeypatch.setattr(sys, "argv", [name, *words.split()])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run_example


@pytest.fixture
def eagerly():
    """Nothing is compiled: that takes longer than a few small steps."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def numbers(pattern, text):
    return [float(number) for number in re.findall(pattern, text)]


def test_repeats_of_dna_are_told_by_memory_length(run, eagerly):
    output = run("dna_repeats", "--steps 5 --sequences 2")
    bits = numbers(r"memory +\d+: ([\d.]+) bits a base", output)
    assert len(bits) == 3
    # Nothing is known yet: three bases are one of 64.
    assert all(1.9 < value < 2.5 for value in bits)
    assert "at best: 0.136" in output


def test_documents_are_classified_with_and_without_memory(run, eagerly):
    output = run(
        "document_classifier", "--steps 1 --classes 2 --per-class 8 --memory 64"
    )
    accuracies = numbers(r"memory +\d+: ([\d.]+)", output)
    assert len(accuracies) == 2
    assert all(0 <= accuracy <= 1 for accuracy in accuracies)
    assert len(numbers(r"gain by memory: ([-+\d.]+)", output)) == 1


def test_refrains_of_music_are_told_apart_from_episodes(run, eagerly):
    output = run("music_rondo", "--steps 5 --pieces 2")
    found = re.findall(
        r"memory +(\d+): ([\d.]+) nats a note .*, ([\d.]+) in episodes", output
    )
    assert [memory for memory, *_ in found] == ["0", "64"]
    assert re.search(r"^([A-G][45]/[124] ){32}$", output, re.MULTILINE)


def test_names_are_used_far_behind_their_definition(run, eagerly):
    output = run(
        "source_code",
        "--steps 5 --files 4 --distance 300 --memory-length 600",
    )
    (distance,) = re.findall(r"definition to use: (\d+) to (\d+)", output)
    assert 200 < int(distance[0]) < int(distance[1]) < 600
    assert len(numbers(r"([\d.]+) nats for the name", output)) == 3


def test_n_best_lists_are_rescored_after_their_story(run, eagerly):
    output = run(
        "rescore_n_best",
        "--steps 5 --distance 30 --lists 4 --memory-length 48",
    )
    shares = numbers(r"(\d+)% correct", output)
    assert len(shares) == 4
    assert {0.0, 50.0, 100.0}.issuperset(shares)  # two lists count


def test_summaries_are_read_in_three_ways(run, eagerly):
    output = run("summarise_sources", "--steps 5 --files 12")
    assert numbers(r"(\d+) documents to train on", output)[0] > 5
    losses = numbers(r"  ([\d.]+)  behind", output)
    assert len(losses) == 3
    assert all(4 < loss < 10 for loss in losses)


def test_sensors_are_predicted_with_and_without_memory(run, eagerly):
    lines = run("sensor_stream", "--steps 2 --length 20").splitlines()
    assert [line.rpartition(":")[0] for line in lines] == [
        "guessing the mean",
        "memory  0",
        "memory 32",
    ]


def test_a_size_and_a_rate_are_searched_for(run, eagerly):
    output = run("tune", "--steps 2 --trials 2 --validation-steps 1")
    (best,) = re.findall(r"^best: (.*)$", output, re.MULTILINE)
    assert set(ast.literal_eval(best)) == {"hidden_dim", "learning_rate"}


def test_scikit_learn_cross_validates_a_classifier(run, eagerly):
    output = run("cross_validate", "--per-class 8 --epochs 1 --folds 2")
    scores = numbers(r"fold \d: ([\d.]+)", output)
    assert len(scores) == 2
    (mean,) = numbers(r"mean of 2 folds: ([\d.]+)", output)
    assert abs(mean - sum(scores) / 2) < 0.002
    assert numbers(r"same answer: ([\d.]+)", output) == [0.25]


@pytest.mark.parametrize(
    "name, module, package",
    [
        ("tune", "keras_tuner", "keras-tuner"),
        ("cross_validate", "sklearn.model_selection", "scikit-learn"),
    ],
)
def test_what_others_keep_is_asked_for(run, monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=f"pip install {package}"):
        run(name, "")


def test_a_converted_checkpoint_has_the_losses_it_had(run, eagerly, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("It began, and it went on. " * 400)
    saved = tmp_path / "model"
    output = run(
        "continue_from_checkpoint", f"--steps 10 --text {text} --save {saved}"
    )
    there, here, continued = re.findall(
        r"^\w+: ([\d.]+) bits per byte, ([\d.]+) without", output, re.MULTILINE
    )
    assert there == here
    assert float(continued[0]) < float(here[0])
    assert (saved / "config.json").exists()


def run_alone(name, *words):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *words],
        capture_output=True,
        text=True,
        # Installed or not: the package is the one that stands here.
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_devices_have_the_losses_of_one():
    """Devices are set up before anything else happens in a process."""
    output = run_alone("two_devices", "--steps", "3", "--batch-size", "4")
    (difference,) = numbers(r"changes by ([\d.e-]+) at most", output)
    assert difference < 1e-5
    assert len(numbers(r"([\d.]+) bits per byte", output)) == 2


def test_a_client_loses_answers_and_no_text(run):
    output = run("serving_client", "--steps 3 --segments 4")
    one, two, forgetful = numbers(r": ([\d.]+) bits per byte", output)
    assert 4 < min(one, two, forgetful) and max(one, two, forgetful) < 10
    assert one != forgetful
    (counts,) = re.findall(r"(\d+) requests, (\d+) answers lost", output)
    # Three sessions begin, read four segments each, and one text is asked for.
    assert int(counts[0]) - int(counts[1]) >= 3 + 3 * 4
    assert int(counts[1]) > 0


def test_the_edge_knows_nothing_of_keras(tmp_path):
    output = run_alone("onnx_at_the_edge", "--steps", "3", "--bytes", "40")
    assert len(numbers(r": ([\d.]+) bits per byte", output)) == 2
    assert "the ring: 98,304 bytes" in output
    assert "frameworks in this process: none" in output


def test_every_example_is_tested_and_listed():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    tests = EXAMPLES.parent / "tests"
    text = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    for name in names:
        assert name in text
        assert f"`{name}.py`" in page
