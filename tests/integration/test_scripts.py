"""Scripts outside the package run as a user runs them, only shorter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_script(path, *arguments):
    done = subprocess.run(
        [sys.executable, ROOT / path, *map(str, arguments)],
        capture_output=True,
        text=True,
        # Installed or not: the package is the one that stands here.
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_example_trains_evaluates_and_generates(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("def f(x):\n    return x + 1\n\n\n" * 400)
    saved = tmp_path / "model"
    output = run_script(
        "examples/train_on_your_text.py",
        *("--text", text, "--steps", 10, "--save", saved),
    )
    assert output.count("bits per byte") == 3
    assert "def " in output
    assert (saved / "config.json").exists()


@pytest.mark.backend("tensorflow")  # the script is the same on each
def test_benchmark_keeps_every_sample_and_says_where_it_ran(tmp_path):
    path = tmp_path / "results.json"
    run_script("benchmarks/bench_training.py", "--quick", "--output", path)
    report = json.loads(path.read_text())
    assert report["backend"] == os.environ["KERAS_BACKEND"]
    assert report["versions"]["keras"]
    names = [cell["benchmark"] for cell in report["cells"]]
    assert names == [
        "TrainingStep.time_training_step",
        "EvaluationStep.time_evaluation_step",
    ]
    for cell in report["cells"]:
        assert len(cell["samples"]) == 3
        assert min(cell["samples"]) > 0
        assert cell["setup_and_compile_seconds"] > 0


@pytest.mark.backend("tensorflow")
def test_benchmark_compares_a_token_with_memory_and_recomputed(tmp_path):
    path = tmp_path / "results.json"
    sizes = ["attention_length=96", "num_layers=1", "hidden_dim=16"]
    run_script(
        "benchmarks/bench_evaluation.py",
        *("--quick", "--output", path),
        *(word for size in sizes for word in ("--param", size)),
    )
    report = json.loads(path.read_text())
    with_memory, recomputed = report["cells"]
    assert with_memory["params"] == recomputed["params"]
    (row,) = report["speed_ups"]
    assert row["attention_length"] == 96
    median = sorted(with_memory["samples"])[1]
    assert row["with_memory_ms"] == pytest.approx(median / 128 * 1e3)
    assert row["recomputed_ms"] == pytest.approx(
        sorted(recomputed["samples"])[1] * 1e3
    )


@pytest.mark.backend("tensorflow")
def test_word_model_is_trained_by_the_command_line_alone(tmp_path):
    text = tmp_path / "text.txt"
    lines = " = The Ship = \n \n The ship sailed , and on . \n" * 90
    rare = "".join(f" word{number} \n" for number in range(6000))
    text.write_text(lines + rare)  # more words than the cutoffs
    test = tmp_path / "test.txt"
    test.write_text(lines[:900])
    output = run_script(
        "examples/wikitext_word_model.py",
        *("--train", text, "--test", test, "--steps", 6),
        *("--output", tmp_path / "out"),
    )
    assert output.count("$ keras-txl ") == 5
    assert "validation loss: perplexity" in output
    assert "\nThe ship" in output  # what is generated, line ends and all


@pytest.mark.backend("tensorflow")
def test_stream_benchmark_tells_rates(tmp_path):
    path = tmp_path / "results.json"
    run_script(
        "benchmarks/bench_stream.py",
        *("--quick", "--output", path),
        *("--param", "num_tokens=200000"),
    )
    rates = json.loads(path.read_text())["rates"]
    assert {rate["reader"] for rate in rates} == {"iterate"}
    assert min(rate["million_tokens_per_second"] for rate in rates) > 0
