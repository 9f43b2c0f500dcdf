"""The benchmark of the process' memory keeps its samples."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.backend("tensorflow")  # the script is the same on each
def test_the_resident_size_is_read_after_every_step(tmp_path):
    path = tmp_path / "results.json"
    out = run_script(
        "benchmarks/bench_process_memory.py", "--quick", "--output", path
    )
    report = json.loads(path.read_text())
    assert "20 steps:" in out and "kB a step" in out
    assert report["steps"] == len(report["samples"]) == 20
    assert min(report["samples"]) > 100_000  # kB: the backend alone is more
    assert report["unit"] == "kB"
