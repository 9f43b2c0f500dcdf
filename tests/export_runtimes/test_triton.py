"""Triton's server, from the wheel nvidia-pytriton, over sockets."""

import json
import os
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from keras_txl.export.check import expected_values
from keras_txl.export.serving import KServeV2
from keras_txl.export.serving import RequestError
from keras_txl.export.serving import StreamSession
from tests.export.bad_requests import assert_bad_requests_are_refused
from tests.export.servers import free_port
from tests.export.stream_cases import read_sessions
from tests.export_runtimes.http_servers import HttpServer
from tests.export_runtimes.streams import assert_streams_equal_keras
from tests.export_runtimes.streams import read_while_the_server_dies
from tests.export_runtimes.streams import streams_of

pytestmark = pytest.mark.backend("tensorflow")

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "export" / "serving"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
DOUBLE = Path(__file__).with_name("onnx_backend_double.py")
M = 6


@pytest.fixture(scope="module")
def models(exported, trained, tmp_path_factory):
    """With a double of the ONNX backend, which the wheel has not."""
    folder = tmp_path_factory.mktemp("triton") / "repository"
    subprocess.run(
        [sys.executable, RECIPES / "triton_repository.py", exported[1], folder]
        + ["--onnx", trained[2]["hidden"]],
        check=True,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
    )
    # Triton looks for a backend beside the model first.
    library = folder / "tiny_onnx" / "libtriton_onnxruntime.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", DOUBLE.with_suffix(".cc"), "-o", library]
        + [f'-DPYTHON="{sys.executable}"', f'-DSCRIPT="{DOUBLE}"'],
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def served(models):
    port = free_port()
    words = [sys.executable, RECIPES / "run_triton.py", models]
    words += ["--http-port", port]
    address = f"http://127.0.0.1:{port}"
    server = HttpServer(words, f"{address}/v2/health/ready", ENVIRONMENT)
    yield server, address
    server.kill()


def test_triton_reads_what_each_configuration_means(served):
    """It parses them as its own protocol buffers, and answers in JSON."""

    def read(model):
        url = f"{served[1]}/v2/models/{model}/config"
        with urllib.request.urlopen(url) as answer:
            return json.loads(answer.read())

    def told(tensors):
        return {
            one["name"]: (one["data_type"], list(map(int, one["dims"])))
            for one in tensors
        }

    ids = {"token_ids": ("TYPE_INT32", [-1])}
    memory = {
        "memory": ("TYPE_FP32", [-1, 2, M, 8]),
        "memory_length": ("TYPE_INT32", [-1]),
    }
    config = read("tiny")
    assert (config["backend"], config["max_batch_size"]) == ("python", 0)
    assert told(config["input"]) == {
        "token_ids": ("TYPE_INT32", [-1, -1]),
        "token_length": ("TYPE_INT32", [-1]),
        **memory,
    }
    assert told(config["output"]) == {
        "logits": ("TYPE_FP32", [-1, -1, 256]),
        **{f"new_{name}": spec for name, spec in memory.items()},
    }
    assert "sequence_batching" not in config

    config = read("tiny_session")
    assert (config["backend"], config["max_batch_size"]) == ("python", 64)
    assert told(config["input"]) == ids
    assert config["input"][0]["allow_ragged_batch"]
    assert told(config["output"]) == {"logits": ("TYPE_FP32", [-1, 256])}
    sequences = config["sequence_batching"]
    assert not sequences.get("state")
    assert {
        (one["name"], kind["kind"])
        for one in sequences["control_input"]
        for kind in one["control"]
    } == {
        ("START", "CONTROL_SEQUENCE_START"),
        ("END", "CONTROL_SEQUENCE_END"),
        ("CORRID", "CONTROL_SEQUENCE_CORRID"),
    }

    config = read("tiny_onnx")
    assert config["backend"] == "onnxruntime"
    assert set(told(config["input"])) == {"token_ids", "token_length"}
    sequences = config["sequence_batching"]
    assert not sequences.get("control_input")
    states = {one["input_name"]: one for one in sequences["state"]}
    assert "memory_length" in states and len(states) > 1
    for name, state in states.items():
        assert state["output_name"] == f"new_{name}"
        (first,) = state["initial_state"]
        assert first["zero_data"]
        assert told([{**state, "name": name}]) == told([first])


def test_sessions_of_the_client_equal_keras(exported, served):
    expected = expected_values(exported[0], M)
    server = KServeV2(served[1], "tiny")
    sessions = {"first": 1, "second": 1, "unequal_rows": 3}
    # `step` is all that the model has.
    read_sessions(expected, StepOnly(server), sessions=sessions, scores=False)


class StepOnly:
    """A server of `step`: memory begins here, and there is no `score`."""

    def __init__(self, server):
        self.server = server

    def predict(self, signature, inputs):
        if signature == "initial_memory":
            rows = len(inputs["rows"])
            return {
                "memory": np.zeros([rows, 2, M, 8], "float32"),
                "memory_length": np.zeros([rows], "int32"),
            }
        return self.server.predict(signature, inputs)


def test_fifty_sessions_do_not_mix_and_outlive_the_server(exported, served):
    """Of unequal lengths, and those that wait run together."""
    process, address = served
    server = StepOnly(KServeV2(address, "tiny"))
    streams = streams_of(50)
    sessions = [StreamSession(server, attempts=11, wait=0.1) for _ in streams]
    logits = read_while_the_server_dies(sessions, streams, process)
    assert_streams_equal_keras(exported[0], streams, logits)


def read_sequences(address, model, streams, more=lambda ids: {}):
    """Logits of the last segments; the server has the memory."""

    def read(number, index):
        server = KServeV2(
            address,
            model,
            parameters={
                "sequence_id": number + 1,
                "sequence_start": index == 0,
                "sequence_end": index == 2,
            },
        )
        ids = streams[number][index][None].astype("int32")
        inputs = {"token_ids": ids, **more(ids)}
        return server.predict("step", inputs)["logits"]

    with ThreadPoolExecutor(8) as pool:
        for index in range(3):
            logits = list(
                pool.map(lambda n: read(n, index), range(len(streams)))
            )
    return logits


def test_sequences_on_the_server_do_not_mix(exported, served):
    streams = streams_of(50)
    logits = read_sequences(served[1], "tiny_session", streams)
    assert_streams_equal_keras(exported[0], streams, logits)


def test_implicit_state_is_the_memory_of_an_onnx_model(trained, served):
    """Triton reads our configuration and keeps the state; see the double."""
    streams = streams_of(20)
    logits = read_sequences(
        served[1],
        "tiny_onnx",
        streams,
        lambda ids: {"token_length": np.array([ids.shape[1]], "int32")},
    )
    assert_streams_equal_keras(trained[0], streams, logits, 1e-4)


def test_bad_requests_are_refused_in_words(served):
    session = StreamSession(StepOnly(KServeV2(served[1], "tiny")))
    before = session.memory
    with pytest.raises(RequestError, match="`token_ids` must be from"):
        session.step([[256]])
    assert session.memory is before
    session.step([[255]])
    assert_bad_requests_are_refused(KServeV2(served[1], "tiny"))


def test_a_sequence_goes_on_behind_a_refused_start(served):
    def ask(token_id, **parameters):
        parameters = {"sequence_id": 77, **parameters}
        server = KServeV2(served[1], "tiny_session", parameters=parameters)
        ids = np.array([[token_id]], "int32")
        return server.predict("step", {"token_ids": ids})["logits"]

    with pytest.raises(RequestError, match="`token_ids` must be from"):
        ask(256, sequence_start=True)
    first = ask(5)
    again = ask(5, sequence_start=True, sequence_end=True)
    assert np.allclose(first, again, atol=1e-6)
