"""Several devices and machines compute what one device computes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.integration import device_runs
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close

ROOT = Path(__file__).resolve().parents[2]
DEVICES_OF_JAX = "--xla_force_host_platform_device_count"

pytestmark = [pytest.mark.backend("tensorflow", "jax"), pytest.mark.slow]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each kind of run, and one on a single device meanwhile."""
    folder = tmp_path_factory.mktemp("devices")
    two_devices = start("two_devices", folder)
    try:
        lm = device_runs.make_lm()
        one = {**device_runs.train(lm), **device_runs.predict(lm)}
    finally:
        found = finish(two_devices)
    processes = finish(start("two_processes", folder, processes=2))
    return {"one device": one, "two devices": found[0], "processes": processes}


def start(kind, folder, processes=1):
    """Start the processes of a run; each gets its number and a free port."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [str(server.getsockname()[1]) for server in sockets]
    for server in sockets:
        server.close()
    program = [sys.executable, "-m", device_runs.__name__, kind]
    started = []
    for number in range(processes):
        output = folder / f"{kind}_{number}.npz"
        log = (folder / f"{kind}_{number}.log").open("w+")
        process = subprocess.Popen(
            [*program, str(output), str(number), *ports],
            cwd=ROOT,
            # Installed or not: the package is the one that stands here.
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "XLA_FLAGS": f"{DEVICES_OF_JAX}={4 if processes == 1 else 1}",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        started.append((process, output, log))
    return started


def finish(started):
    """What each process of a run found."""
    found = []
    try:
        for process, output, log in started:
            status = process.wait(timeout=400)
            log.seek(0)
            assert status == 0, log.read()
            with np.load(output) as arrays:
                found.append(dict(arrays))
    finally:
        for process, _, log in started:
            process.kill()
            log.close()
    return found


def assert_same_run(actual, expected, prefix=""):
    for name, value in expected.items():
        assert_close(actual[prefix + name], value, FLOAT32, prefix + name)


def test_two_devices_equal_one(runs):
    assert_same_run(runs["two devices"], runs["one device"])


def test_two_processes_equal_one_device(runs):
    expected = dict(runs["one device"])
    if device_runs.BACKEND == "jax":  # Keras cannot gather predictions there
        del expected["prediction"]
    for found in runs["processes"]:
        assert_same_run(found, expected)


def test_the_comparison_sees_memory_and_resets(runs):
    one = runs["one device"]
    assert np.ptp(one["losses"]) > 1e-3
    states = one["trained segment_memory_0/train_states"]
    assert np.abs(states).max(axis=(1, 2)).min() > 0.1
    lengths = one["reset segment_memory_0/train_length"]
    assert (lengths == 0).tolist() == [False, True, True, False]


def test_each_device_holds_the_memory_of_its_rows(runs):
    rows = device_runs.BATCH_SIZE // 2
    for name, shape in runs["two devices"].items():
        if "shard of" in name and "kernel" not in name:
            assert shape[0] == rows, name
    if device_runs.BACKEND == "jax":
        found = runs["two devices"]
        assert found["shard of train_states"].tolist() == [rows, 6, 8]
        for process in runs["processes"]:
            assert process["shard of train_states"].tolist() == [rows, 6, 8]
    else:
        assert runs["two devices"]["shard of train_states"].tolist() == [
            rows,
            6,
            8,
        ]


@pytest.mark.backend("jax")
def test_model_parallel_equals_one_device(runs):
    found = runs["two devices"]
    assert_same_run(found, runs["one device"], "model parallel ")
    assert found["model parallel shard of kernel"].tolist() == [1, 4, 8]
    assert found["shard of kernel"].tolist() == [2, 4, 8]


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("odd rows", "`batch_size` must be divisible by the number of repl"),
        ("short arrays", "Use 4 rows, or in `evaluate`"),
        ("short batch", "Every batch must be full"),
        pytest.param(
            "built outside",
            "must be built inside the scope",
            marks=pytest.mark.backend("tensorflow"),
        ),
        pytest.param(
            "compiled outside",
            "`compile` must be called in the scope",
            marks=pytest.mark.backend("tensorflow"),
        ),
        pytest.param(
            "steps at once",
            "`steps_per_execution` must be 1",
            marks=pytest.mark.backend("tensorflow"),
        ),
        pytest.param(
            "called outside",
            "must be called on a replica",
            marks=pytest.mark.backend("tensorflow"),
        ),
    ],
)
def test_wrong_use_is_told(runs, use, told):
    assert told in str(runs["two devices"][use])


@pytest.mark.backend("jax")
def test_whole_batches_in_each_process_are_refused(runs):
    for found in runs["processes"]:
        assert "`tf.data.Dataset` of whole batches" in str(
            found["whole batches"]
        )
