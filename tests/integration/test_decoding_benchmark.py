"""The benchmark of decoding reaches its positions and keeps its cells."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # the script is the same on each
def test_a_cell_has_its_positions_peers_and_the_bound(tmp_path):
    path = tmp_path / "results.json"
    states = ("--state-dir", tmp_path)
    run_script(
        "benchmarks/bench_decoding.py", "--quick", "--output", path, *states
    )
    (cell,) = json.loads(path.read_text())["cells"]
    assert "error" not in cell
    assert [row["position"] for row in cell["positions"]] == [20, 200]
    # Calls have 16 tokens, two of them warm up.
    assert [row["begin"] for row in cell["positions"]] == [64, 240]
    assert [row["end"] for row in cell["positions"]] == [112, 288]
    for row in cell["positions"]:
        assert len(row["samples"]) == 3 and min(row["samples"]) > 0
    saved = sorted(file.stem for file in tmp_path.glob("*/*.npz"))
    assert saved == ["208", "32"]
    names = [row["peer"] for row in cell["peers"]]
    assert names == ["bound", "keras_txl_tensorflow"]
    assert all(row["tokens_per_s"] > 0 for row in cell["peers"])
