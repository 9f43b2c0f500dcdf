"""Runs the check through both loaders where Keras is not loaded.

python fresh_check.py FOLDER EXPECTED.npz
"""

import sys

sys.modules["keras"] = None  # whoever imports it fails

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from server_double import Runner  # noqa: E402

from keras_txl.export.check import replay  # noqa: E402

TOLERANCE = 1e-5


def steps(run):
    """`start` and `step` of the check, by `run(signature, inputs)`."""

    def start(rows):
        return run("initial_memory", {"rows": np.ones([rows], "int32")})

    def step(inputs, memory):
        segment = {k: inputs[k] for k in ("token_ids", "token_length")}
        scored = run(
            "score", {**segment, **memory, "targets": inputs["targets"]}
        )
        stepped = run("", {**segment, **memory})  # serving_default
        outputs = {
            "logits": stepped["logits"],
            "token_losses": scored["token_losses"],
            "memory": scored["new_memory"],
            "memory_length": scored["new_memory_length"],
        }
        return outputs, {name: stepped[f"new_{name}"] for name in memory}

    return start, step


def main(folder, expected):
    signatures = tf.saved_model.load(folder).signatures

    def run_loaded(name, inputs):
        function = signatures[name or "serving_default"]
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        return {k: v.numpy() for k, v in function(**tensors).items()}

    arrays = dict(np.load(expected))
    for run in (run_loaded, Runner(folder).run):
        errors = replay(arrays, *steps(run), TOLERANCE, "SavedModel")
        print(sorted(errors))


if __name__ == "__main__":
    main(*sys.argv[1:])
