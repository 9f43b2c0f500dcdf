"""`keras-txl quickstart` with a tiny budget, and when it is cut short."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import keras_txl
from keras_txl.cli.main import main

SIZES = [
    *("--segment-length", "16", "--memory-length", "16"),
    *("--batch-size", "4", "--num-layers", "1", "--num-heads", "2"),
    *("--hidden-dim", "16", "--intermediate-dim", "32"),
]
FILES = {"report.md", "sample.txt", "history.csv", "model"}
PLOTS = {"loss.png", "memory.png"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(250):
        words = f"line {number} of the text, and a word or two more. "
        (folder / f"{number:03d}.txt").write_text(words * 3)
    return folder


@pytest.fixture(scope="module")
def output(corpus, tmp_path_factory):
    output = tmp_path_factory.mktemp("quickstart") / "out"
    code = main(
        ["quickstart", "--corpus", str(corpus), "--output", str(output)]
        + ["--minutes", "0.05", "--seed", "1", *SIZES]
    )
    assert code == 0
    return output


def environment():
    source = str(Path(keras_txl.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source}


def test_everything_is_written(output):
    assert {path.name for path in output.iterdir()} == FILES | PLOTS
    assert not list(output.parent.glob(".out*"))
    for name in PLOTS:
        assert (output / name).read_bytes().startswith(b"\x89PNG")


def test_the_report_tells_table_interval_and_reload(output):
    report = (output / "report.md").read_text()
    for label in (
        "memory 0",
        "memory 1x (16 bytes)",
        "memory 1x, zeroed",
        "memory 2x (32 bytes)",
        "memory 4x (64 bytes)",
        "xz",
        "bzip2",
    ):
        assert f"| {label} | " in report
    assert "95 % interval [" in report
    assert "The saved model has the same loss" in report
    assert "![Loss while training](loss.png)" in report
    assert "![What memory buys](memory.png)" in report
    assert "--seed 1" in report


def test_the_sample_begins_with_held_out_text(output, corpus):
    sample = (output / "sample.txt").read_text()
    assert any(sample[:40] in path.read_text() for path in corpus.iterdir()), (
        sample
    )


def test_the_model_is_usable_alone(output, capsys):
    assert main(["inspect", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory_length"] == 16


def rows_of_tables(output):
    report = (output / "report.md").read_text()
    return [line for line in report.splitlines() if line.startswith("| ")]


def test_the_run_can_be_repeated_as_the_report_says(output, corpus, tmp_path):
    report = (output / "report.md").read_text()
    steps = re.search(r"quickstart --steps (\d+) --seed 1", report).group(1)
    code = main(
        ["quickstart", "--corpus", str(corpus), "--steps", steps]
        + ["--seed", "1", "--output", str(tmp_path / "again"), *SIZES]
    )
    assert code == 0
    assert len(rows_of_tables(output)) > 8
    assert rows_of_tables(tmp_path / "again") == rows_of_tables(output)
    sample = (output / "sample.txt").read_text()
    assert (tmp_path / "again" / "sample.txt").read_text() == sample


@pytest.mark.slow
# Ctrl-C reaches `train` on each: test_cli.py.
@pytest.mark.backend("tensorflow")
def test_an_interrupted_run_leaves_nothing(corpus, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_txl.cli.main", "quickstart"]
        + ["--corpus", str(corpus), "--output", str(tmp_path / "out")]
        + ["--minutes", "3", *SIZES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    deadline = time.monotonic() + 240
    try:
        while not list(tmp_path.glob(".out*/history.csv")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()  # else a run of three minutes goes on beside the tests
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_failure_late_in_the_run_leaves_nothing(
    corpus, tmp_path, monkeypatch, capsys
):
    from keras_txl.cli import reload_check

    monkeypatch.setattr(
        reload_check, "_evaluate_in_new_process", lambda *_: 12345.0
    )
    code = main(
        ["quickstart", "--corpus", str(corpus), "--steps", "3", *SIZES]
        + ["--output", str(tmp_path / "out")]
    )
    assert code == 1
    assert "must have the same loss" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
