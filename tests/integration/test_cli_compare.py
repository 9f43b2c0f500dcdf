"""What `keras-txl compare` refuses, and how it goes on."""

import json
import os
import signal
from pathlib import Path

import pytest

from keras_txl.cli.main import main

pytestmark = pytest.mark.backend("tensorflow")


def test_what_cannot_be_compared_is_told(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("x" * 999)
    words = ["compare", str(text), "--output", str(tmp_path / "out")]
    assert main([*words, "--resume"]) == 1
    assert "needs a comparison that was begun" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--memory-length", "0"])
    assert "must be at least 1 to compare" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class Runs:
    """In place of training: what was asked for, and where the process dies."""

    def __init__(self, dies_at=None, death=None):
        self.made = []
        self.dies_at = dies_at
        self.death = death

    def __call__(self, variant, seed, settings, size, tokenizer, texts):
        if len(self.made) == self.dies_at:
            self.death()
        self.made.append(variant.run_name(seed))
        nats = 2.0 + len(self.made)  # tells one run from another
        return {
            "position": variant.position,
            "recurrent": variant.recurrent,
            "seed": seed,
            "steps": settings["steps"],
            "parameters": 9,
            "trained_attention_length": size.segment_length,
            "evaluations": [
                {"attention_length": 64, "nats_per_token": nats}
            ],
        }  # fmt: skip


def compare(tmp_path, monkeypatch, runs, *more):
    monkeypatch.setattr("keras_txl.cli.ablation_run.run_variant", runs)
    text = tmp_path / "text.txt"
    if not text.exists():
        text.write_text("the ship sails; " * 99)
    words = ["compare", str(text), "--output", str(tmp_path / "out")]
    return main([*words, "--position", "none", "--seeds", "2", *more])


def finished(tmp_path):
    """Name and content of each run that is done; all of them whole."""
    return {
        path.stem: json.loads(path.read_text())
        for path in (tmp_path / "out" / "runs").glob("*.json")
    }


NAMES = [
    f"none-{memory}-seed_{seed}"
    for seed in (0, 1)
    for memory in ("recurrent", "without_recurrence")
]


def goes_on(tmp_path, monkeypatch, done):
    """Start again: only what is missing is trained, then there is a table."""
    before = finished(tmp_path)
    assert list(before) and set(before) == set(NAMES[:done])
    assert not list((tmp_path / "out").glob("comparison.*"))
    again = Runs()
    assert compare(tmp_path, monkeypatch, again, "--resume") == 0
    assert again.made == NAMES[done:]
    after = finished(tmp_path)
    assert {name: after[name] for name in before} == before
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [row["seeds"] for row in told["rows"]] == [[0, 1], [0, 1]]
    assert (tmp_path / "out" / "comparison.md").is_file()


@pytest.fixture
def heard_interrupts():
    """A test run in the background is deaf to Ctrl-C otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interrupts")
def test_what_ctrl_c_interrupts_goes_on(tmp_path, monkeypatch, capsys):
    interrupted = Runs(2, lambda: signal.raise_signal(signal.SIGINT))
    assert compare(tmp_path, monkeypatch, interrupted) == 130
    assert f"--output {tmp_path / 'out'} --resume" in capsys.readouterr().err
    goes_on(tmp_path, monkeypatch, 2)


@pytest.mark.parametrize("place", ["within a run", "within its file"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_was_killed_goes_on(tmp_path, monkeypatch, capsys, place):
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def die_while_writing():
        # The third run is in its partial file, and never takes its name.
        monkeypatch.setattr(Path, "replace", die)

    death = die if place == "within a run" else die_while_writing
    process = os.fork()
    if process == 0:
        try:
            compare(tmp_path, monkeypatch, Runs(2, death))
        finally:
            os._exit(1)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    goes_on(tmp_path, monkeypatch, 2)
