"""KServe's Python server with our recipe, over sockets."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keras_txl.export.check import expected_values
from keras_txl.export.serving import KServeV1
from keras_txl.export.serving import KServeV2
from keras_txl.export.serving import RequestError
from keras_txl.export.serving import StreamSession
from keras_txl.export.serving import generate_text
from tests.export.bad_requests import assert_bad_requests_are_refused
from tests.export.servers import free_port
from tests.export.stream_cases import read_sessions
from tests.export_runtimes.http_servers import HttpServer
from tests.export_runtimes.streams import assert_streams_equal_keras
from tests.export_runtimes.streams import read_while_the_server_dies
from tests.export_runtimes.streams import streams_of

pytestmark = pytest.mark.backend("tensorflow")

RECIPE = Path(__file__).parents[2] / "export" / "serving" / "kserve_server.py"
M = 6
SESSIONS = 50


@pytest.fixture(scope="module")
def served(exported):
    port = free_port()
    words = [sys.executable, RECIPE, exported[1], "--name", "tiny"]
    words += ["--http_port", port, "--enable_grpc", "false"]
    address = f"http://127.0.0.1:{port}"
    server = HttpServer(words, f"{address}/v2/health/ready", dict(os.environ))
    yield server, address
    server.kill()


@pytest.mark.parametrize("protocol", [KServeV1, KServeV2])
def test_sessions_equal_keras(exported, served, protocol):
    expected = expected_values(exported[0], M)
    server = protocol(served[1], "tiny")
    read_sessions(expected, server, sessions={"first": 1, "unequal_rows": 3})


def test_fifty_sessions_at_once_do_not_mix_and_outlive_the_server(
    exported, served
):
    """Each reads a stream of its own, of its own segment lengths."""
    process, address = served
    server = KServeV1(address, "tiny")
    streams = streams_of(SESSIONS)
    with ThreadPoolExecutor(16) as pool:
        sessions = list(
            pool.map(
                lambda _: StreamSession(server, attempts=11, wait=0.1), streams
            )
        )
    logits = read_while_the_server_dies(sessions, streams, process)
    assert_streams_equal_keras(exported[0], streams, logits)


def test_texts_are_continued_and_bad_requests_refused(exported, served):
    lm, _ = exported
    stream = lm.generate_stream("né", sampler="greedy", max_new_tokens=5)
    expected = "né" + "".join(stream)
    for protocol in (KServeV1, KServeV2):
        server = protocol(served[1], "tiny")
        settings = {"temperature": 0.0, "max_new_tokens": 5}
        (text,) = generate_text(server, ["né"], **settings)
        assert text.rstrip("\ufffd") == expected
        session = StreamSession(server)
        before = session.memory
        with pytest.raises(RequestError, match="`token_ids` must be from"):
            session.step([[256]])
        assert session.memory is before
        session.step([[255]])
        assert_bad_requests_are_refused(server)


def test_bytes_that_do_not_fit_are_refused_in_words(served):
    """Our reader of bytes, in the place of KServe's, which makes lists."""
    tensor = {"name": "rows", "shape": [1], "datatype": "INT32"}
    sized = {**tensor, "parameters": {"binary_data_size": 4}}
    for body, message in (
        ({"inputs": [sized]}, "cannot reshape|buffer"),
        ({"inputs": 3}, "must follow KServe's protocol"),
    ):
        head = json.dumps(body).encode()
        request = urllib.request.Request(
            f"{served[1]}/v2/models/tiny/infer",
            head + b"\0\0",
            {
                "Inference-Header-Content-Length": str(len(head)),
                "Content-Type": "application/octet-stream",
            },
        )
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request)
        assert raised.value.code == 400
        assert re.search(message, raised.value.read().decode())


def test_the_load_is_measured_by_session(tmp_path):
    """The benchmark runs with the servers that are at hand."""
    path = tmp_path / "serving.json"
    root = RECIPE.parents[2]
    subprocess.run(
        [sys.executable, root / "benchmarks" / "bench_serving.py", "--quick"]
        + ["--servers", "together", "kserve", "--output", path],
        check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    together, kserve = json.loads(path.read_text())["cells"]
    assert len(kserve["samples"]) >= 2  # two sessions
    assert together["segments_per_second"] > 0
