"""TensorFlow Serving contract tests: what its server relies on, without it.

Nothing here ran inside TensorFlow Serving; the tests hold the files to what
it reads, by its names, its session path and its rules of batching.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

import keras_txl
from keras_txl.export import operations
from keras_txl.export import read_manifest
from keras_txl.export.check import check_segments
from keras_txl.export.check import expected_values
from keras_txl.export.saved_model_files import write_saved_model

pytestmark = pytest.mark.backend("tensorflow")

V, L, M, D = 256, 2, 6, 8
SEGMENT = {
    "token_ids": ("int32", [-1, -1]),
    "token_length": ("int32", [-1]),
}
MEMORY = {
    "memory": ("float32", [-1, L, M, D]),
    "memory_length": ("int32", [-1]),
}
NEW_MEMORY = {f"new_{name}": spec for name, spec in MEMORY.items()}
SETTINGS = {
    "max_new_tokens": ("int32", [-1]),
    "temperature": ("float32", [-1]),
    "top_k": ("int32", [-1]),
    "top_p": ("float32", [-1]),
    "seed": ("int32", [-1]),
}
LOGITS = {"logits": ("float32", [-1, -1, V])}
STEP = ({**SEGMENT, **MEMORY}, {**LOGITS, **NEW_MEMORY})
CONTRACT = {
    "step": STEP,
    "serving_default": STEP,
    "score": (
        {**SEGMENT, **MEMORY, "targets": ("int32", [-1, -1])},
        {"token_losses": ("float32", [-1, -1]), **NEW_MEMORY},
    ),
    "initial_memory": ({"rows": ("int32", [-1])}, MEMORY),
    "generate": ({**SEGMENT, **SETTINGS}, SEGMENT),
    "generate_text": (
        {"prompts": ("string", [-1]), **SETTINGS},
        {"texts": ("string", [-1])},
    ),
    "session_step": (
        {**SEGMENT, "session": ("int32", [-1]), "reset": ("int32", [-1])},
        LOGITS,
    ),
}


@pytest.fixture(scope="module")
def meta_graph(exported):
    _, folder = exported
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    (meta,) = saved.meta_graphs
    return meta


def test_one_graph_for_serving_in_a_numbered_folder(exported, meta_graph):
    _, folder = exported
    assert folder.name == str(int(folder.name))
    assert list(meta_graph.meta_info_def.tags) == ["serve"]


@pytest.mark.parametrize("name", CONTRACT)
def test_signatures_have_the_names_types_and_shapes(meta_graph, name):
    signature = meta_graph.signature_def[name]
    assert signature.method_name == "tensorflow/serving/predict"
    for tensors, wanted in zip(
        (signature.inputs, signature.outputs), CONTRACT[name], strict=True
    ):
        found = {
            key: (
                tf.as_dtype(info.dtype).name,
                [axis.size for axis in info.tensor_shape.dim],
            )
            for key, info in tensors.items()
        }
        assert found == wanted


def test_there_is_no_other_signature(meta_graph):
    names = {n for n in meta_graph.signature_def if not n.startswith("__")}
    assert names == set(CONTRACT)


def test_manifest_and_signatures_agree(exported, meta_graph):
    _, folder = exported
    signatures = read_manifest(folder)["signatures"]
    assert set(signatures) <= set(CONTRACT) and "step" in signatures
    for name, told in signatures.items():
        for side in ("inputs", "outputs"):
            infos = getattr(meta_graph.signature_def[name], side)
            assert told[side] == {
                key: {
                    "shape": [
                        None if axis.size == -1 else axis.size
                        for axis in info.tensor_shape.dim
                    ],
                    "dtype": types_pb2.DataType.Name(info.dtype)
                    .removeprefix("DT_")
                    .lower()
                    .replace("float", "float32"),
                }
                for key, info in infos.items()
            }


def test_every_operation_is_listed(meta_graph):
    """Those of the file: of the signatures, and what makes their weights."""
    listed = {op.name for op in meta_graph.meta_info_def.stripped_op_list.op}
    found = operations.operations(meta_graph.graph_def)
    assert len(found) > 50
    known = operations.COMPUTATION | operations.TEXT | operations.SESSION
    assert (found | listed) - operations.LOADING <= known


def test_no_listed_operation_writes_or_asks_for_anything():
    """Of those that are stateful by TensorFlow, each is known by name."""
    stateful = {
        "COMPUTATION": {"Assert", "If", "ReadVariableOp"}
        | {"StatefulPartitionedCall", "While"},
        "TEXT": {"LookupTableFindV2", "LookupTableSizeV2"},
        "SESSION": {"ResourceGather", "ResourceScatterNdUpdate"},
    }
    for name, expected in stateful.items():
        found = {
            each
            for each in getattr(operations, name)
            if op_def_registry.get(each).is_stateful
        }
        assert found == expected, name
    sets = [getattr(operations, name) for name in (*stateful, "LOADING")]
    sets.append(operations.TEXT_LIBRARY)
    assert len(frozenset().union(*sets)) == sum(map(len, sets))


VARIABLE = tf.Variable([1.0])
FORBIDDEN = {
    "PyFunc": lambda x: tf.numpy_function(np.tanh, [x], tf.float32),
    "RandomUniform": lambda x: x + tf.random.uniform([]),
    "AssignVariableOp": VARIABLE.assign,
    "ReadFile": lambda x: tf.io.read_file("weights"),
    "ResourceGather": lambda x: VARIABLE.sparse_read([0]),
    "StringLength": lambda x: tf.strings.length(tf.as_string(x)),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_another_operation_is_refused_by_name(name):
    function = tf.function(lambda x: FORBIDDEN[name](x), autograph=False)
    concrete = function.get_concrete_function(tf.TensorSpec([1]))
    with pytest.raises(ValueError, match=f"{name}.* in step"):
        operations.check_operations("step", concrete)


def test_an_exporter_refuses_what_a_server_cannot_run(make_lm, tmp_path):
    def activation(x):
        return tf.nn.relu(x) * tf.random.uniform([], 0.9, 1.1)

    lm = make_lm(num_layers=1, memory_length=0, activation=activation)
    with pytest.raises(ValueError, match="RandomUniform in step"):
        write_saved_model(lm, str(tmp_path), 0, "float32", None, [])
    assert not list(tmp_path.iterdir())


def test_both_loaders_equal_keras_in_a_process_without_it(exported, tmp_path):
    lm, folder = exported
    np.savez(tmp_path / "expected.npz", **expected_values(lm, M))
    script = Path(__file__).with_name("fresh_check.py")
    source = str(Path(keras_txl.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, script, folder, tmp_path / "expected.npz"],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    outputs = str(["logits", "memory", "memory_length", "token_losses"])
    assert done.stdout.splitlines() == [outputs, outputs]


# === Batching: rows of several requests run together ===
@pytest.fixture(scope="module")
def signatures(exported):
    _, folder = exported
    return tf.saved_model.load(str(folder)).signatures


def run(signatures, name, inputs):
    outputs = signatures[name](
        **{key: tf.constant(value) for key, value in inputs.items()}
    )
    return {key: value.numpy() for key, value in outputs.items()}


def padded(requests):
    """Requests joined as the server joins them.

    `pad_variable_length_inputs` fills with the first number of a tensor.
    """
    joined = {}
    for name in requests[0]:
        values = [request[name] for request in requests]
        if values[0].ndim == 2:
            longest = max(value.shape[1] for value in values)
            values = [
                np.pad(
                    value,
                    [(0, 0), (0, longest - value.shape[1])],
                    constant_values=value.flat[0],
                )
                for value in values
            ]
        joined[name] = np.concatenate(values)
    return joined


@pytest.mark.parametrize("name", ["step", "score"])
def test_requests_of_unequal_lengths_run_together(signatures, name):
    requests = []
    for key, segments in check_segments(V).items():
        memory = run(
            signatures,
            "initial_memory",
            {"rows": segments[0]["token_length"]},
        )
        for index in range({"first": 0, "second": 1}.get(key, 2)):
            segment = {k: segments[index][k] for k in SEGMENT}
            outputs = run(signatures, "step", {**segment, **memory})
            memory = {name: outputs[f"new_{name}"] for name in memory}
        wanted = CONTRACT[name][0]
        segment = segments[{"first": 3, "second": 1}.get(key, 4)]
        request = {**segment, **memory}
        requests.append({k: request[k] for k in wanted})
    assert len({r["token_ids"].shape[1] for r in requests}) == 3
    assert len({int(n) for r in requests for n in r["memory_length"]}) > 2
    together = run(signatures, name, padded(requests))
    begin = 0
    for request in requests:
        rows, length = request["token_ids"].shape
        alone = run(signatures, name, request)
        for key, value in alone.items():
            part = together[key][begin : begin + rows]
            if key in ("logits", "token_losses"):
                part = part[:, :length]
            np.testing.assert_allclose(part, value, rtol=1e-5, atol=1e-5)
        begin += rows


# === Sessions on the server ===
def session_step(signatures, ids, session, reset):
    ids = np.asarray(ids, "int32")
    inputs = {
        "token_ids": ids,
        "token_length": np.full([len(ids)], ids.shape[1], "int32"),
        "session": np.asarray(session, "int32"),
        "reset": np.asarray(reset, "int32"),
    }
    return run(signatures, "session_step", inputs)["logits"]


def test_sessions_on_the_server_do_not_mix(signatures):
    def fresh(*segments):
        """Logits of the last segment of a stream, memory on our side."""
        memory = run(
            signatures, "initial_memory", {"rows": np.ones(1, "int32")}
        )
        for segment in segments:
            ids = np.array([segment], "int32")
            inputs = {
                "token_ids": ids,
                "token_length": [ids.shape[1]],
                **memory,
            }
            outputs = run(signatures, "step", inputs)
            memory = {name: outputs[f"new_{name}"] for name in memory}
        return outputs["logits"][0]

    first = session_step(signatures, [[1, 2, 3]], [0], [1])
    session_step(signatures, [[9, 8]], [1], [1])
    both = session_step(signatures, [[7], [4]], [1, 0], [0, 0])
    again = session_step(signatures, [[5], [5]], [0, 1], [1, 0])
    for logits, segments in (
        (first[0], [[1, 2, 3]]),
        (both[0], [[9, 8], [7]]),
        (both[1], [[1, 2, 3], [4]]),
        (again[0], [[5]]),
        (again[1], [[9, 8], [7], [5]]),
    ):
        np.testing.assert_allclose(
            logits, fresh(*segments), rtol=1e-5, atol=1e-5
        )
    assert np.abs(both[0] - both[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("session", "reset", "message"),
    [
        ([0, 0], [1, 1], "each session once a call"),
        ([0, 2], [1, 1], "`session` must be from"),
        ([-1, 0], [1, 1], "`session` must be from"),
        ([0, 1], [0, 2], "`reset` must be from"),
    ],
)
def test_bad_sessions_are_refused_in_words(signatures, session, reset, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session_step(signatures, [[1], [2]], session, reset)
