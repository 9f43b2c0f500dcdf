"""The report: Markdown with or without plots."""

import sys

import pytest

from keras_txl.cli.report import NO_PLOTS
from keras_txl.cli.report import printable
from keras_txl.cli.report import write_report
from tests.cli.test_memory_table import table

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

HISTORY = [
    {"step": 10, "seconds": 1.0, "loss": 3.0, "val_loss": None},
    {"step": 20, "seconds": 2.0, "loss": 2.0, "val_loss": 2.5},
]


def write(folder):
    return write_report(
        folder,
        {"corpus": "a text"},
        table(-0.2, -0.1),
        HISTORY,
        "prompt\n```\nmore",
        "The saved model has the same loss.",
    )


def test_the_report_shows_its_plots(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert write(tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert "![Loss while training](loss.png)" in report
    for name in ("loss.png", "memory.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_report_says_how_to_get_plots(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not write(tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert report.count(NO_PLOTS) == 2
    assert ".png" not in report
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_the_report_has_facts_table_and_verdict(tmp_path):
    write(tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert "- corpus: a text" in report
    assert "| xz | 2.0000 |" in report
    assert table(-0.2, -0.1).verdict() in report
    assert "| 20 | 2.8854 | 3.6067 |" in report
    assert "| 10 |" not in report  # no validation there


def test_control_characters_do_not_reach_the_terminal():
    assert printable("a\x1b[31mb\r\n\té") == "a\ufffd[31mb\ufffd\n\té"


def test_a_sample_cannot_break_the_markdown(tmp_path):
    write(tmp_path)
    assert "    ```\n" in (tmp_path / "report.md").read_text()
