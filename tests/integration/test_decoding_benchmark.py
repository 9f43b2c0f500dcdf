"""The benchmark of decoding reaches its positions and keeps its cells."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # the script is the same on each
def test_a_cell_has_its_positions_and_the_bound(tmp_path):
    path = tmp_path / "results.json"
    run_script("benchmarks/bench_decoding.py", "--quick", "--output", path)
    (cell,) = json.loads(path.read_text())["cells"]
    assert "error" not in cell
    assert [row["position"] for row in cell["positions"]] == [20, 200]
    for row in cell["positions"]:
        for name in ("samples", "bound_samples"):
            assert len(row[name]) == 3 and min(row[name]) > 0
