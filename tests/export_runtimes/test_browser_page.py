"""The page in a headless Chromium, fed by a server of static files."""

import importlib.util
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.export_runtimes.edge_models import PROMPT
from tests.export_runtimes.edge_models import TOKENS

pytestmark = pytest.mark.backend("tensorflow")

VISIT = Path(__file__).with_name("visit_page.mjs")


@pytest.fixture(scope="module")
def address(repository, trained, tmp_path_factory):
    """The page with the trained model, served on this machine."""
    path = repository / "export" / "edge" / "browser" / "make_site.py"
    spec = importlib.util.spec_from_file_location("make_site", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    site = tmp_path_factory.mktemp("site")
    packages = Path(os.environ["EDGE_NODE_MODULES"])
    module.make_site(trained[2]["kv_ring"], site, packages)
    server = module.make_server(site, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_page_streams_survives_a_reload_and_says_what_keras_says(
    trained, address, tmp_path
):
    packages = Path(os.environ["EDGE_NODE_MODULES"])
    script = Path(shutil.copy(VISIT, tmp_path))
    (tmp_path / "node_modules").symlink_to(packages)
    pictures = Path(os.environ.get("EDGE_PICTURES", tmp_path / "pictures"))
    pictures.mkdir(exist_ok=True)
    done = subprocess.run(
        ["node", script, address, PROMPT, str(TOKENS), pictures],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["console"] == []
    expected = PROMPT + bytes(trained[1]).decode("utf-8", "replace")
    for when in ("before_reload", "after_reload", "at_the_end"):
        text = seen[when]["text"]
        assert len(text) > len(PROMPT)
        assert expected.startswith(text[: len(expected)])
    assert len(seen["at_the_end"]["text"]) >= len(expected)
    assert seen["before_reload"]["position"] > 50
    assert seen["at_the_end"]["position"] >= TOKENS
    assert seen["at_the_end"]["speed"] > 1
    assert seen["at_the_end"]["memory"].endswith(" MiB")
    assert seen["restored_while_running"]
    assert seen["overflow_on_a_phone"] <= 0
    assert seen["paper"]["light"] != seen["paper"]["dark"]
    for name in ("light.png", "dark.png", "phone.png"):
        assert (pictures / name).stat().st_size > 5000
