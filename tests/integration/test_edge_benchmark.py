"""The benchmark of exported files measures all in the same rounds."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # files are always made there
def test_a_quick_run_has_the_file_and_keras(tmp_path):
    path = tmp_path / "results.json"
    run_script("benchmarks/bench_edge.py", "--quick", "--output", path)
    report = json.loads(path.read_text())
    assert set(report["seconds"]) == {"keras", "kv_ring float32"}
    assert {len(samples) for samples in report["seconds"].values()} == {3}
    assert [row["tokens"] for row in report["long_run"]] == [1000, 2000]
    assert report["bytes"]["kv_ring float32"] > 4 * 64 * 64
