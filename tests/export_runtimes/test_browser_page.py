"""The page in a headless Chromium, fed by a server of static files."""

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.export_runtimes.edge_models import PROMPT
from tests.export_runtimes.edge_models import TOKENS

pytestmark = pytest.mark.backend("tensorflow")

VISIT = Path(__file__).with_name("visit_page.mjs")


@contextlib.contextmanager
def served(repository, model, site):
    """The page with a model, served on this machine."""
    path = repository / "export" / "edge" / "browser" / "make_site.py"
    spec = importlib.util.spec_from_file_location("make_site", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_site(model, site, Path(os.environ["EDGE_NODE_MODULES"]))
    server = module.make_server(site, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def visit(repository, model, temperature, folder):
    """What a reader saw, and the pictures that were taken."""
    script = Path(shutil.copy(VISIT, folder))
    (folder / "node_modules").symlink_to(os.environ["EDGE_NODE_MODULES"])
    pictures = Path(os.environ.get("EDGE_PICTURES", folder / "pictures"))
    pictures.mkdir(exist_ok=True)
    with served(repository, model, folder / "site") as address:
        words = [address, PROMPT, TOKENS, temperature, pictures]
        done = subprocess.run(
            ["node", script, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), pictures


def check_visit(seen, expected):
    assert seen["console"] == []
    for when in ("before_reload", "after_reload", "at_the_end"):
        text = seen[when]["text"]
        assert len(text) > len(PROMPT)
        assert expected.startswith(text[: len(expected)])
    assert len(seen["at_the_end"]["text"]) >= len(expected)
    assert seen["before_reload"]["position"] > 50
    assert seen["at_the_end"]["position"] >= TOKENS
    assert seen["restored_while_running"]


def test_the_page_says_what_keras_says_and_survives_a_reload(
    trained, repository, tmp_path
):
    folder = trained[2]["kv_ring"]
    seen, pictures = visit(repository, folder, 0, tmp_path)
    check_visit(seen, PROMPT + bytes(trained[1]).decode("utf-8", "replace"))
    assert seen["at_the_end"]["speed"] > 1
    assert seen["at_the_end"]["memory"].endswith(" MiB")
    assert seen["overflow_on_a_phone"] <= 0
    assert seen["paper"]["light"] != seen["paper"]["dark"]
    for name in ("light.png", "dark.png", "phone.png"):
        assert (pictures / name).stat().st_size > 5000


def test_the_page_draws_what_the_driver_in_python_draws(
    quickstart_ring, repository, tmp_path
):
    driver = repository / "export" / "edge" / "python" / "transformer_xl.py"
    words = ["--prompt", PROMPT, "--length", TOKENS, "--temperature", 0.8]
    done = subprocess.run(
        [sys.executable, driver, quickstart_ring]
        + [*map(str, words), "--top-p", "0.95"],  # what the page begins with
        capture_output=True,
        check=True,
        text=True,
    )
    seen, _ = visit(repository, quickstart_ring, 0.8, tmp_path)
    # A character that is cut off at the end is told in another way.
    check_visit(seen, (PROMPT + done.stdout[:-1]).rstrip("\ufffd"))
