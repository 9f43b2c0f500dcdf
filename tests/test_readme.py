"""The README is run: its Python, its commands, its links."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def commands():
    """The `keras-txl` calls of the README, each as its list of words."""
    parts = [
        part.strip()
        for block in blocks("bash")
        for part in re.split(r"\n|&&", block)
    ]
    return [
        re.sub(r'"[^"]*"', "TEXT", part).split()[1:]
        for part in parts
        if part.startswith(".venv/bin/keras-txl")
    ]


@cache
def help_of(*verb):
    done = subprocess.run(
        [sys.executable, "-m", "keras_txl.cli.main", *verb, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout


def test_python_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    sources = blocks("python")
    assert sources
    for source in sources:
        exec(compile(source, "README.md", "exec"), namespace)
    assert "Ships" in capsys.readouterr().out


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_and_their_options_exist(words):
    # `export` has a verb for each target.
    text = help_of(*words[: 2 if words[0] == "export" else 1])
    for word in words:
        if word.startswith("--"):
            assert word in text


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
    for folder in re.findall(r"`([a-z_/]+/)`", README.split("## Where")[1]):
        places = [ROOT / folder, ROOT / "keras_txl" / folder]
        assert any(place.is_dir() for place in places), folder
