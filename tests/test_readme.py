"""The README is run: its Python, its commands, its links."""

import re
import shlex
from pathlib import Path

import pytest

from keras_txl.cli.main import main
from tests.integration.cli_run import SIZES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def commands():
    """The `keras-txl` calls under "On the command line" and "Deploy"."""
    found = [shlex.split(line) for line in "".join(blocks("bash")).split("\n")]
    return [
        words[1:] for words in found if words[:1] == [".venv/bin/keras-txl"]
    ]


def test_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    sources = blocks("python")
    assert sources
    for source in sources:
        exec(compile(source, "README.md", "exec"), namespace)
    assert "Ships" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # the verbs are tested on each
def test_commands_run_in_order_and_print_what_is_shown(
    tmp_path, monkeypatch, capsys
):
    """With a smaller model of a smaller text than the standard library."""
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    for number in range(30):
        text = f"def main({number}):\n    return {number}\n" * 9
        (tmp_path / "texts" / f"{number}.py").write_text(text)
    Path("some.py").write_text(text)
    for words in commands():
        if words[0] == "train":
            words[words.index("stdlib")] = "texts"
            words[words.index("--steps") + 1] = "3"
            words += SIZES
        assert main(words) == 0, words
    printed = " ".join(capsys.readouterr().out.split())
    *lines, text = "".join(blocks("text")).splitlines()
    assert text.startswith("def main(") and "def main(" in printed
    for line in lines:  # with other figures
        shown = re.escape(" ".join(line.partition("...")[0].split()))
        shown = re.sub(r"\d+\\\.\d+", r"[\\d.,]+", shown)
        assert re.search(shown, printed), line
    assert (tmp_path / "served" / "model").is_dir()
    assert (tmp_path / "model_onnx").is_dir()


def test_there_is_one_command_to_install_and_one_to_test():
    for name in ("install", "test"):
        found = re.findall(
            rf"<!-- command: {name} -->\n```bash\n(.*)\n```\n", README
        )
        assert len(found) == 1


def test_first_command_stands_within_thirty_lines():
    lines = README.splitlines()
    assert len(lines) <= 150
    assert any("keras-txl quickstart" in line for line in lines[:30])


def test_links_inside_the_repository_lead_somewhere():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_folders_of_the_map_exist():
    folders = re.findall(r"`([a-z_/]+/)`", README.split("## Where")[1])
    parts = {path.parent.name for path in ROOT.glob("keras_txl/*/__init__.py")}
    assert {folder.split("/")[-2] for folder in folders} >= parts
    for folder in folders:
        places = [ROOT / folder, ROOT / "keras_txl" / folder]
        assert any(place.is_dir() for place in places), folder
