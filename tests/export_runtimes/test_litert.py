"""LiteRT converts the version folder; its signatures keep their names."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_txl.export import export_litert
from keras_txl.export import verify_export
from keras_txl.export import verify_manifest
from keras_txl.export.check import expected_values
from keras_txl.export.check import replay

pytestmark = pytest.mark.backend("tensorflow")

M = 6


@pytest.mark.filterwarnings("ignore")
def test_step_and_score_equal_keras(exported):
    lm, folder = exported
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(folder), signature_keys=["step", "score", "initial_memory"]
    )
    interpreter = Interpreter(model_content=converter.convert())
    run = {
        name: interpreter.get_signature_runner(name)
        for name in interpreter.get_signature_list()
    }

    def start(rows):
        return run["initial_memory"](rows=np.ones([rows], "int32"))

    def step(inputs, memory):
        segment = {k: inputs[k] for k in ("token_ids", "token_length")}
        stepped = run["step"](**segment, **memory)
        scored = run["score"](**segment, **memory, targets=inputs["targets"])
        new = {name: stepped[f"new_{name}"] for name in memory}
        outputs = {
            "logits": stepped["logits"],
            "token_losses": scored["token_losses"],
        }
        return {**outputs, **new}, new

    errors = replay(expected_values(lm, M), start, step, 1e-4, "LiteRT")
    assert len(errors) == 4


def test_the_exporter_checks_the_file_and_verify_does_so_again(
    exported, tmp_path
):
    lm, _ = exported
    folder = export_litert(lm, tmp_path / "model")
    manifest = verify_manifest(folder)
    assert set(manifest["files"]) == {"model.tflite"}
    errors = manifest["check"]["max_abs_error"]
    assert set(errors) == {"logits", "token_losses", "memory", "memory_length"}
    assert verify_export(folder, lm)["max_abs_error"] == errors
