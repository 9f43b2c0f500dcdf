"""`tensorflow::LoadSavedModel` in C++, which TensorFlow Serving loads with.

A session in C++ checks no shapes of what it is fed: the graph has to.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.backend("tensorflow")

SOURCE = Path(__file__).with_name("load_saved_model.cc")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "load_saved_model"
    libraries = tf.sysconfig.get_lib()
    command = [
        *("g++", "-O0", SOURCE, "-o", path),
        *tf.sysconfig.get_compile_flags(),
        *(f"-L{libraries}", f"-Wl,-rpath,{libraries}"),
        # Without it nothing registers a session.
        "-Wl,--no-as-needed",
        "-l:libtensorflow_cc.so.2",
        "-l:libtensorflow_framework.so.2",
    ]
    subprocess.run(command, check=True)
    return path


def test_the_native_loader_equals_keras_and_refuses(exported, program):
    lm, folder = exported
    done = subprocess.run(
        [program, folder], capture_output=True, text=True, check=True
    )
    logits, lengths, *told = done.stdout.splitlines()
    x = {
        "token_ids": np.array([[1, 2, 3], [4, 5, 6]]),
        "padding_mask": np.array([[True] * 3, [True, True, False]]),
    }
    expected, _ = lm.step(x, lm.initial_memory(2))
    found = np.array(logits.split(), "float32").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert lengths == "3 2"
    for message, start in zip(
        told,
        (
            "`memory` must have shape",
            "`memory` must have as many rows",
            "`memory_length` must be from",
            "`token_ids` must be from",
            "refused",
            "good again",
        ),
        strict=True,
    ):
        assert start in message
