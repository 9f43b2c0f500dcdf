"""What stands in the folder of a report."""

import builtins
import json

import pytest

from keras_txl.report import write_report

pytestmark = pytest.mark.backend("tensorflow")  # no tensors

CHARTS = {
    *("memory", "positions", "attention", "entropy", "far"),
    *("terms", "relative_keys", "norms", "drift"),
}


def test_page_numbers_and_pictures(found, tmp_path):
    folder = tmp_path / "new" / "report"
    assert write_report(folder, found, title="T", facts={"layers": 2})
    names = {path.name for path in folder.iterdir()}
    pictures = {f"{name}.png" for name in CHARTS | {"text"}}
    assert names == {"index.html", "report.json"} | pictures
    for name in pictures:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert "<title>T</title>" in (folder / "index.html").read_text()
    told = json.loads(
        (folder / "report.json").read_text(),
        parse_constant=lambda name: pytest.fail(f"{name} is no JSON"),
    )
    assert told["model"] == {"layers": 2}
    assert told["bits_per_token"] == {"without": 2.5, "with": 2.0}
    assert told["curve"]["8"]["bits_per_token"] == 1.5
    assert told["positions"]["0"]["nats"][2] is None
    assert told["attention"] == found.attention.tolist()
    strengths = found.relative_keys.strengths
    assert told["relative_keys"]["strengths"] == strengths.tolist()
    assert told["pieces"][2] == {
        "text": "\n",
        "with_memory": 2.0,
        "without_memory": 1.0,
    }


def test_without_matplotlib_there_is_a_page(found, tmp_path, monkeypatch):
    imported = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    assert not write_report(tmp_path, found)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"index.html", "report.json"}


def test_a_report_that_fails_leaves_nothing(found, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no room")

    monkeypatch.setattr("keras_txl.report.written.make_page", fail)
    with pytest.raises(RuntimeError, match="no room"):
        write_report(tmp_path / "report", found)
    assert list(tmp_path.iterdir()) == []
