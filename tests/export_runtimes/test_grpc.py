"""The gRPC client and the warm-up requests, through TensorFlow's own protos.

The server is a double (tests/export/server_double.py) in another process.
"""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from keras_txl.export import read_manifest
from keras_txl.export.check import expected_values
from keras_txl.export.serving import RequestError
from keras_txl.export.serving import ServerUnavailableError
from keras_txl.export.serving import StreamSession
from keras_txl.export.serving import TensorFlowServingGrpc
from keras_txl.export.serving import generate_text
from keras_txl.export.serving_files import WARMUP
from tests.export.bad_requests import assert_bad_requests_are_refused
from tests.export.servers import double
from tests.export.stream_cases import read_sessions

pytestmark = pytest.mark.backend("tensorflow")

M = 6


@pytest.fixture(scope="module")
def served(exported):
    with double("grpc", exported[1]) as (process, port):
        yield process, TensorFlowServingGrpc(f"127.0.0.1:{port}", "tiny")


def test_sessions_equal_keras_and_outlive_the_server(exported, served):
    process, server = served

    def restart(index):
        if index == 3:
            process.kill()
            with pytest.raises(ServerUnavailableError):
                StreamSession(server, attempts=1)
            process.start()

    # gRPC waits a second and more before it connects again.
    expected = expected_values(exported[0], M)
    errors = read_sessions(
        expected, server, between=restart, attempts=8, wait=0.1
    )
    assert set(errors) == {"logits", "token_losses", "memory", "memory_length"}


def test_texts_are_continued(exported, served):
    lm, _ = exported
    stream = lm.generate_stream("né", sampler="greedy", max_new_tokens=5)
    settings = {"temperature": [0.0, 1.0], "max_new_tokens": 5}
    texts = generate_text(served[1], ["né", "ab"], **settings)
    assert texts[0].rstrip("\ufffd") == "né" + "".join(stream)
    assert texts[1].startswith("ab")


def test_answers_beyond_four_megabytes_arrive(served):
    rows = 6000
    server = served[1]
    memory = server.predict("initial_memory", {"rows": np.ones(rows, "int32")})
    assert memory["memory"].nbytes > 2 * 2**20
    ids = np.ones([rows, 1], "int32")
    request = {"token_ids": ids, "token_length": ids[:, 0], **memory}
    answer = server.predict("step", request)
    assert sum(value.nbytes for value in answer.values()) > 4 * 2**20


def test_bad_requests_are_refused_and_the_next_is_right(served):
    assert_bad_requests_are_refused(served[1])


def test_text_that_is_no_utf8_is_refused_by_the_graph(served):
    with pytest.raises(RequestError, match="`prompts` must be UTF-8"):
        served[1].predict(
            "generate_text",
            {
                "prompts": np.array([b"\xff"], object),
                "max_new_tokens": np.array([1], "int32"),
                "temperature": np.array([1], "float32"),
                "top_k": np.array([0], "int32"),
                "top_p": np.array([1], "float32"),
                "seed": np.array([0], "int32"),
            },
        )


def test_warm_up_requests_are_answered(exported, served):
    _, folder = exported
    records = list(tf.data.TFRecordDataset(str(folder / WARMUP)))
    seen = set()
    for record in records:
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        seen.add(request.model_spec.signature_name)
        inputs = {
            name: np.array(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        assert served[1].predict(request.model_spec.signature_name, inputs)
    manifest = read_manifest(folder)
    assert seen == set(manifest["signatures"]) - {"session_step"}


def test_the_servers_configuration_is_one(exported):
    _, folder = exported
    config = text_format.Parse(
        (folder.parent / "models.config").read_text(),
        model_server_config_pb2.ModelServerConfig(),
    )
    (model,) = config.model_config_list.config
    assert (model.name, model.model_platform) == ("tiny", "tensorflow")
    assert model.base_path == str(folder.parent)
