"""The page of a report in a headless Chromium."""

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from keras_txl.cli.main import main
from tests.export_runtimes.edge_models import trained_lm

pytestmark = pytest.mark.backend("tensorflow")

VISIT = Path(__file__).with_name("visit_report.mjs")
FIGURES = {
    *("text", "memory", "positions", "attention", "entropy", "far"),
    *("terms", "relative_keys", "norms", "drift"),
    *("recl", "protocol", "model"),
}
VIEWS = ("desktop_light", "desktop_dark", "phone_light", "phone_dark")


@pytest.fixture(scope="module")
def report(repository, tmp_path_factory):
    """Report of the quickstart's model, or of one trained in seconds.

    The one reads a source of the standard library, as it was trained on, the
    other its training text.
    """
    root = tmp_path_factory.mktemp("report")
    text, options = csv.__file__, ["--tokens", "4096"]
    model = os.environ.get("QUICKSTART_MODEL")
    if model is None:
        model = str(root / "model")
        trained_lm(repository).save_to_preset(model)
        text = str(repository / "tests" / "tolerances.py")
        options = ["--tokens", "1024", "--segment-length", "32"]
    words = ["inspect", model, "--text", text, "--output", str(root / "out")]
    assert main([*words, *options]) == 0
    return root / "out"


@pytest.fixture(scope="module")
def seen(report, tmp_path_factory):
    """What a reader saw, and the pictures that were taken."""
    folder = tmp_path_factory.mktemp("visit")
    script = Path(shutil.copy(VISIT, folder))
    (folder / "node_modules").symlink_to(os.environ["EDGE_NODE_MODULES"])
    pictures = Path(os.environ.get("EDGE_PICTURES", folder / "pictures"))
    pictures.mkdir(exist_ok=True)
    done = subprocess.run(
        ["node", script, report / "index.html", pictures],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), pictures


def test_memory_lowers_the_loss(report):
    told = json.loads((report / "report.json").read_text())
    bits = told["bits_per_token"]
    assert bits["with"] < bits["without"] < 8
    # What memory is for: where a segment begins.
    cold, warm = (told["positions"][n]["nats"][0] for n in told["positions"])
    assert warm < cold


def test_every_figure_is_seen_and_nothing_else_is_loaded(seen, report):
    told, pictures = seen
    assert told["console"] == []
    assert set(told["requests"]) == {(report / "index.html").as_uri()}
    assert set(told["views"]) == set(VIEWS)
    for name, view in told["views"].items():
        assert view["overflow"] <= 0
        assert set(view["figures"]) == FIGURES
        for figure in view["figures"].values():
            assert figure["width"] > 250 and figure["height"] > 80
            assert figure["svg"] is None or figure["svg"] > 50
        assert view["letters"] > 9  # pixels, on a phone too
        assert (pictures / f"{name}.png").stat().st_size > 50_000


def test_dark_is_dark(seen):
    views = seen[0]["views"]
    for size in ("desktop", "phone"):
        light, dark = views[f"{size}_light"], views[f"{size}_dark"]
        assert light["paper"] != dark["paper"]
        assert light["ink"] != dark["ink"]


def test_the_text_is_shaded_three_ways_and_told(seen):
    shades = seen[0]["shades"]
    assert min(len(colours) for colours in shades.values()) > 4
    assert set(shades["difference"]) != set(shades["with"])
    told = seen[0]["told"]
    assert told["position"] == "fixed"
    assert f"without memory {told['without']} bits" in told["content"].replace(
        '" "', ""
    ).replace('"', "")
