"""`tensorflow::LoadSavedModel` in C++, which TensorFlow Serving loads with.

A session in C++ checks no shapes of what it is fed: the graph has to.
"""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_txl.export.check import SESSIONS
from keras_txl.export.check import expected_values
from keras_txl.export.check import replay

pytestmark = pytest.mark.backend("tensorflow")

M = 6
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


def names():
    """`start` of `replay`: a session's state is its name."""
    left = iter(SESSIONS)
    return lambda rows: next(left)


def test_the_native_loader_equals_keras_and_refuses(exported, program):
    lm, folder = exported
    expected = expected_values(lm, M)
    numbers = {name: number for number, name in enumerate(SESSIONS)}
    asked = []

    def ask(inputs, name):
        """Note a segment; the program answers to all of them."""
        ids, length = inputs["token_ids"], inputs["token_length"]
        words = [numbers[name], *ids.shape, *ids.flat, *length]
        asked.append(" ".join(map(str, words)))
        return {}, name

    replay(expected, names(), ask, 1e-5, "native loader")
    done = subprocess.run(
        [program, folder],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = iter(done.stdout.splitlines())

    def answer(inputs, name):
        logits, memory, length = (next(lines).split() for _ in range(3))
        rows, tokens = inputs["token_ids"].shape
        return {
            "logits": np.array(logits, "float32").reshape(rows, tokens, -1),
            "memory": np.array(memory, "float32").reshape(rows, 2, M, -1),
            "memory_length": np.array(length, "int32"),
        }, name

    errors = replay(expected, names(), answer, 1e-5, "native loader")
    assert len(errors) == 3
    told = list(lines)
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
