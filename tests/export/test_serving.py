"""Clients: sessions over HTTP, retries, errors; servers in other processes."""

import socket
import threading
from functools import partial

import numpy as np
import pytest

from keras_txl.export.check import expected_values
from keras_txl.export.serving import KServeV1
from keras_txl.export.serving import KServeV2
from keras_txl.export.serving import RequestError
from keras_txl.export.serving import ServerUnavailableError
from keras_txl.export.serving import StreamSession
from keras_txl.export.serving import TensorFlowServingRest
from keras_txl.export.serving import generate
from keras_txl.export.serving import generate_text
from tests.export.bad_requests import assert_bad_requests_are_refused
from tests.export.servers import double
from tests.export.servers import free_port
from tests.export.stream_cases import read_sessions

pytestmark = pytest.mark.backend("tensorflow")

M = 6
PROTOCOLS = {
    "TensorFlow Serving": TensorFlowServingRest,
    "KServe v1": KServeV1,
    "KServe v2": KServeV2,
    "KServe v2 in JSON": partial(KServeV2, binary=False),
}


@pytest.fixture(scope="module")
def expected(served_lm):
    return expected_values(served_lm, M)


@pytest.fixture(scope="module")
def served(exported):
    """The double over HTTP; a test may kill and start it again."""
    with double("rest", exported[1]) as (process, port):
        yield process, f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_interleaved_sessions_equal_keras(expected, served, protocol):
    sessions = {"first": 1, "unequal_rows": 3}
    if protocol is TensorFlowServingRest:
        sessions |= {"second": 1, "three_rows": 3}
    server = protocol(served[1], "tiny")
    errors = read_sessions(expected, server, sessions=sessions)
    assert set(errors) == {"logits", "token_losses", "memory", "memory_length"}


def test_a_killed_server_loses_and_doubles_nothing(expected, served):
    process, address = served

    def restart(index):
        if index == 3:
            process.kill()
            with pytest.raises(ServerUnavailableError):
                StreamSession(server, attempts=1)
            process.start()

    server = TensorFlowServingRest(address, "tiny")
    sessions = {"first": 1, "second": 1}
    read_sessions(expected, server, between=restart, sessions=sessions)


class Unreliable:
    """Runs each request, and loses the answers whose turn it is."""

    def __init__(self, server, lost):
        self.server, self.lost, self.sent = server, set(lost), []

    def predict(self, signature, inputs):
        outputs = self.server.predict(signature, inputs)
        self.sent.append(signature)
        if len(self.sent) in self.lost:
            raise ServerUnavailableError("lost on the way")
        return outputs


def test_an_answer_that_is_lost_applies_no_segment_twice(expected, served):
    server = TensorFlowServingRest(served[1], "tiny")
    unreliable = Unreliable(server, lost=[1, 3, 4, 8])
    read_sessions(expected, unreliable, sessions={"first": 1}, wait=0.0)
    assert len(unreliable.sent) == 7 + 4  # the first request is for memory
    unreliable = Unreliable(server, lost=[2, 3])
    session = StreamSession(unreliable, attempts=2, wait=0.0)
    before = session.memory
    with pytest.raises(ServerUnavailableError):
        session.step([[1, 2]])
    assert session.memory is before


def test_sessions_go_on_elsewhere_and_forget_on_demand(served):
    server = TensorFlowServingRest(served[1], "tiny")
    first = StreamSession(server, rows=2)
    first.step([[1, 2, 3], [4]])
    moved = StreamSession(server, 2, memory=first.memory)
    assert moved.memory["memory_length"].tolist() == [3, 1]
    np.testing.assert_array_equal(moved.step([[5]] * 2), first.step([[5]] * 2))
    moved.reset([0])
    fresh = StreamSession(server)
    logits = moved.step([[7], [7]])
    np.testing.assert_allclose(logits[:1], fresh.step([[7]]), atol=1e-5)
    assert np.abs(logits[0] - logits[1]).max() > 1e-3
    moved.reset()
    assert moved.memory["memory_length"].tolist() == [0, 0]
    with pytest.raises(ValueError, match="rows=2"):
        StreamSession(server, 1, memory=first.memory)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_text_is_continued_over_each_protocol(exported, served, protocol):
    lm, _ = exported
    server = protocol(served[1], "tiny")
    stream = lm.generate_stream("né", sampler="greedy", max_new_tokens=5)
    settings = {"temperature": [0.0, 1.0], "max_new_tokens": 5, "seed": 3}
    texts = generate_text(server, ["né", "ab"], **settings)
    # The stream keeps back the beginning of a character.
    assert texts[0].rstrip("\ufffd") == "né" + "".join(stream)
    rows = generate(server, [list("né".encode()), [97, 98]], **settings)
    assert bytes(rows[0]).decode("utf-8", "replace") == texts[0]
    assert bytes(rows[1]).decode("utf-8", "replace") == texts[1]


def test_unknown_settings_are_refused(served):
    server = TensorFlowServingRest(served[1], "tiny")
    with pytest.raises(TypeError, match="beams"):
        generate(server, [[1]], beams=4)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_bad_requests_end_in_words_and_the_next_is_right(served, protocol):
    # Without types in the protocol, the double makes whole numbers of others.
    typeless = protocol in (TensorFlowServingRest, KServeV1)
    assert_bad_requests_are_refused(
        protocol(served[1], "tiny"), ["type"] if typeless else []
    )


def test_text_that_is_no_utf8_is_refused_by_the_client(served):
    server = KServeV1(served[1], "tiny")
    with pytest.raises(RequestError, match="UTF-8"):
        server.predict(
            "generate_text", {"prompts": np.array([b"\xff"], object)}
        )


def test_an_answer_that_breaks_off_is_asked_for_again():
    """The server dies while it writes, at first in the JSON."""
    answer = b'{"outputs": {"memory": [[0.0]], "memory_length": [0]}}'
    head = b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer)
    whole = head + answer
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            for sent in (whole[:-20], head, b"", whole):
                with listening.accept()[0] as connection:
                    connection.recv(2**16)
                    connection.sendall(sent)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = TensorFlowServingRest(address, "tiny")
        session = StreamSession(server, attempts=4, wait=0.0)
        thread.join()
    assert session.memory["memory_length"].tolist() == [0]


def test_no_server_at_all_is_said_after_the_attempts():
    server = TensorFlowServingRest(f"http://127.0.0.1:{free_port()}", "tiny")
    with pytest.raises(ServerUnavailableError, match="127"):
        StreamSession(server, attempts=2, wait=0.0)


class WholeNumbers:
    """Answers memory of int8 as a reader of JSON gets it, in int32."""

    def __init__(self):
        self.received = []

    def predict(self, signature, inputs):
        new = "" if signature == "initial_memory" else "new_"
        self.received.append(inputs)
        logits = {"logits": np.zeros([1, 9, 256], "float32")}
        return {
            **(logits if new else {}),
            f"{new}memory": np.full([1, 2, M, 8], 3, "int32"),
            f"{new}memory_scale": np.ones([1, 2, M], "float32"),
            f"{new}memory_length": np.array([0], "int32"),
        }


def test_memory_in_int8_is_sent_as_such():
    server = WholeNumbers()
    session = StreamSession(server)
    assert session.step([[1, 2]]).shape == (1, 2, 256)  # not as wide as 9
    session.step([[3]])
    for inputs in server.received[1:]:
        assert inputs["memory"].dtype == np.int8
        assert inputs["memory_scale"].dtype == np.float32


def test_a_type_that_json_has_not_is_refused_by_the_client():
    server = KServeV2("http://127.0.0.1:1", "tiny")
    with pytest.raises(RequestError, match="memory of float16"):
        server.predict("step", {"memory": np.zeros([1], "float16")})
