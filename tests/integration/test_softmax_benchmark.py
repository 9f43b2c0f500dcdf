"""The benchmark of the softmax measures time and memory."""

import json

import pytest

from tests.integration.test_scripts import run_script


@pytest.mark.slow
@pytest.mark.backend("tensorflow")  # the script is the same on each
def test_memory_is_measured_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "results.json"
    run_script("benchmarks/bench_softmax.py", "--quick", "--output", path)
    memory, time = json.loads(path.read_text())["cells"]
    assert memory["benchmark"] == "LargeVocabulary.peakmem_training_step"
    assert memory["unit"] == "MiB" and time["unit"] == "seconds"
    # All logits once are 523 MiB, and they exist more than once.
    assert memory["samples"][0] - memory["after_setup"] > 523
    assert len(time["samples"]) == 3
