"""The benchmark of speed takes turns, keeps all bursts and makes tables."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # it starts each backend itself
def test_a_quick_run_has_a_cell_a_rate_and_a_table(tmp_path):
    path, document = tmp_path / "speed.json", tmp_path / "performance.md"
    document.write_text("a <!-- tables begin -->\n<!-- tables end --> b\n")
    options = ["--quick", "--modes", "eval", "--output", path]
    options += ["--variants", "keras_txl_tensorflow", "--document", document]
    run_script("benchmarks/run.py", *options, "--images", tmp_path)
    (cell,) = json.loads(path.read_text())["cells"]
    rows = {row["name"]: row for row in cell["rows"]}
    assert not any("error" in row for row in rows.values())
    own = rows["keras_txl_tensorflow"]
    assert len(own["bursts"][0]["samples"]) >= 2
    assert 0 < own["share_of_product"] < 1
    assert rows["product_numpy"]["gflops"] > 0
    assert "| **keras_txl_tensorflow** |" in document.read_text()
