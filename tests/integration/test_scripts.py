"""Scripts outside the package run as a user runs them, only shorter."""

import json
import os
import subprocess
import sys
from pathlib import Path

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
