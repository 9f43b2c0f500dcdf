"""OpenVINO reads the version folder: `step` as it is, `score` as its default.

It knows one signature of a folder, `serving_default`.
"""

import shutil

import numpy as np
import openvino
import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_txl.export.check import expected_values
from keras_txl.export.check import replay

pytestmark = pytest.mark.backend("tensorflow")

M = 6
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def compiled(folder):
    """A function from arrays to arrays, both by the names of the signature."""
    core = openvino.Core()
    model = core.compile_model(core.read_model(str(folder)), "CPU", EXACT)

    def run(inputs):
        return {
            name: value.copy()
            for port, value in model(inputs).to_dict().items()
            for name in port.get_names()
        }

    return run


def test_step_and_score_equal_keras(exported, tmp_path):
    lm, folder = exported
    scores = shutil.copytree(folder, tmp_path / "score")
    saved = SavedModel.FromString((scores / "saved_model.pb").read_bytes())
    signatures = saved.meta_graphs[0].signature_def
    signatures["serving_default"].CopyFrom(signatures["score"])
    (scores / "saved_model.pb").write_bytes(saved.SerializeToString())
    step_of, score_of = compiled(folder), compiled(scores)

    def start(rows):
        return {
            "memory": np.zeros([rows, 2, M, 8], "float32"),
            "memory_length": np.zeros([rows], "int32"),
        }

    def step(inputs, memory):
        segment = {k: inputs[k] for k in ("token_ids", "token_length")}
        stepped = step_of({**segment, **memory})
        scored = score_of({**segment, **memory, "targets": inputs["targets"]})
        new = {name: stepped[f"new_{name}"] for name in memory}
        for name in memory:
            np.testing.assert_allclose(scored[f"new_{name}"], new[name], 1e-4)
        outputs = {
            "logits": stepped["logits"],
            "token_losses": scored["token_losses"],
        }
        return {**outputs, **new}, new

    errors = replay(expected_values(lm, M), start, step, 1e-4, "OpenVINO")
    assert set(errors) == {"logits", "token_losses", "memory", "memory_length"}
