"""OpenVINO reads the version folder as it is."""

import numpy as np
import openvino
import pytest

from keras_txl.export.check import expected_values
from keras_txl.export.check import replay

pytestmark = pytest.mark.backend("tensorflow")

M = 6


def test_the_default_signature_equals_keras(exported):
    lm, folder = exported
    core = openvino.Core()
    model = core.read_model(str(folder))
    names = {name for port in model.inputs for name in port.get_names()}
    assert {"token_ids", "token_length", "memory", "memory_length"} <= names
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(model, "CPU", exact)

    def start(rows):
        return {
            "memory": np.zeros([rows, 2, M, 8], "float32"),
            "memory_length": np.zeros([rows], "int32"),
        }

    def step(inputs, memory):
        segment = {k: inputs[k] for k in ("token_ids", "token_length")}
        found = compiled({**segment, **memory}).to_dict()
        outputs = {
            name: value
            for port, value in found.items()
            for name in port.get_names()
        }
        new = {name: outputs[f"new_{name}"].copy() for name in memory}
        return {"logits": outputs["logits"], **new}, new

    errors = replay(expected_values(lm, M), start, step, 1e-4, "OpenVINO")
    assert set(errors) == {"logits", "memory", "memory_length"}
