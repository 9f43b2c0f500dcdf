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


@pytest.fixture(scope="module")
def on_one_device():
    lm = device_runs.make_lm()
    return {**device_runs.train(lm), **device_runs.predict(lm)}


@pytest.fixture(scope="module")
def on_two_devices(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two_devices")
    return finish(start("two_devices", folder))[0]


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
            env={**os.environ, "PYTHONPATH": str(ROOT)},
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


def assert_same_run(actual, expected):
    for name, value in expected.items():
        assert_close(actual[name], value, FLOAT32, name)


@pytest.mark.backend("tensorflow", "jax")
def test_two_devices_equal_one(on_one_device, on_two_devices):
    assert_same_run(on_two_devices, on_one_device)


@pytest.mark.backend("tensorflow", "jax")
def test_the_comparison_sees_memory_and_clipping(on_one_device):
    assert np.ptp(on_one_device["losses"]) > 1e-3
    states = on_one_device["trained segment_memory_0/train_states"]
    assert np.abs(states).min(axis=(1, 2)).max() > 0
    cleared = on_one_device["reset segment_memory_0/train_length"] == 0
    assert cleared.tolist() == [False, True, True, False]
