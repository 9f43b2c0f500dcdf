"""The benchmark of exported files measures all in turns, each in a process."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # files are always made there
def test_a_quick_run_has_the_file_keras_and_the_bound(tmp_path):
    path = tmp_path / "results.json"
    run_script("benchmarks/bench_edge.py", "--quick", "--output", path)
    report = json.loads(path.read_text())
    rows = {row["name"]: row for row in report["rows"]}
    ring = rows["kv_ring float32"]
    others = {"bound", "edge_bound", "keras_txl_tensorflow"}
    assert set(rows) == {"kv_ring float32", *others}
    assert {len(row["bursts"]) for row in rows.values()} == {2}
    assert all(row["token_s"] > 0 for row in rows.values())
    assert ring["bytes"] > 4 * 64 * 64
    assert report["long_run"][-1]["tokens"] >= 200
    assert report["long_run"][-1]["resident_mb"] > 0
