"""`keras-txl doctor` against metadata of its own making."""

import json
from importlib import metadata

import keras
import pytest

from keras_txl.cli import doctor
from keras_txl.cli.main import main

pytestmark = pytest.mark.backend("tensorflow")

REQUIREMENTS = [
    "keras>=3",
    "nowhere-to-be-found; sys_platform == 'nothing'",
    "numpy>=1; extra == 'jax'",
    "nowhere-to-be-found>=2; extra == 'edge'",
    "keras>=1000; extra == 'plots'",
]


@pytest.fixture
def requirements(monkeypatch):
    lines = list(REQUIREMENTS)
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: lines)
    return lines


def test_a_sound_environment(requirements, capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["backend"]["name"] == "tensorflow"
    assert report["backend"]["devices"]
    assert report["packages"] == [
        {
            "package": "keras",
            "needs": ">=3",
            "installed": keras.__version__,
            "fits": True,
        }
    ]
    missing = {row["extra"]: row["missing"] for row in report["features"]}
    assert missing["jax"] == []
    assert missing["edge"] == ["nowhere-to-be-found>=2"]
    assert missing["plots"] == ["keras>=1000"]


def test_tables_say_how_to_install_what_is_missing(requirements, capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"tensorflow {metadata.version('tensorflow')}" in out
    assert "pip install 'keras-txl[edge]'" in out
    assert "pip install 'keras-txl[jax]'" not in out


def test_what_is_required_and_missing_is_a_failure(requirements, capsys):
    requirements += ["nowhere-to-be-found>=2", "keras>=1000"]
    assert main(["doctor"]) == 1
    captured = capsys.readouterr()
    assert "nowhere-to-be-found must be >=2; found: nothing" in captured.err
    assert f"keras must be >=1000; found: {keras.__version__}" in captured.err
    assert "backend tensorflow" in captured.out


def test_a_backend_that_is_not_there(requirements, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "nothing")
    assert main(["doctor"]) == 1
    captured = capsys.readouterr()
    assert "KERAS_BACKEND must be one of" in captured.err
    assert "--upgrade" not in captured.err
    assert "keras" in captured.out


def test_sources_without_metadata(monkeypatch, capsys):
    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", none)
    assert main(["doctor"]) == 1
    assert "Install them with: pip install ." in capsys.readouterr().err


def test_every_extra_for_users_has_its_line(repository):
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text())
    extras = set(project["project"]["optional-dependencies"])
    assert extras - set(doctor.FEATURES) == {"runtimes", "test", "docs", "dev"}
