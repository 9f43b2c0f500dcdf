"""The exporter of ONNX: what it writes, refuses and leaves behind."""

import json

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
import tokenizers

from keras_txl.export import ExportMismatchError
from keras_txl.export import export_onnx
from keras_txl.export import onnx_conversion
from keras_txl.export import onnx_file
from keras_txl.export import open_onnx
from keras_txl.export import verify_manifest
from keras_txl.export.onnx_file import DATA_NAME
from keras_txl.export.onnx_file import MODEL_NAME
from keras_txl.export.onnx_quantization import quantize_folder
from keras_txl.export.onnx_sessions import open_session

pytestmark = pytest.mark.backend("tensorflow")

CACHE = ["0.key", "0.value", "1.key", "1.value"]
PAST = ["batch_size", 2, "past_sequence_length", 4]
PRESENT = ["batch_size", 2, "past_sequence_length + sequence_length", 4]
SIGNATURES = {
    "hidden": (
        {
            "token_ids": (["batch_size", "sequence_length"], "int32"),
            "token_length": (["batch_size"], "int32"),
            "memory": (["batch_size", 2, 6, 8], "float32"),
            "memory_length": (["batch_size"], "int32"),
        },
        {
            "logits": (["batch_size", "sequence_length", 256], "float32"),
            "new_memory": (["batch_size", 2, 6, 8], "float32"),
            "new_memory_length": (["batch_size"], "int32"),
        },
    ),
    "kv": (
        {
            "input_ids": (["batch_size", "sequence_length"], "int64"),
            "attention_mask": (["batch_size", PRESENT[2]], "int64"),
            **{f"past_key_values.{i}": (PAST, "float32") for i in CACHE},
        },
        {
            "logits": (["batch_size", "sequence_length", 256], "float32"),
            **{f"present.{i}": (PRESENT, "float32") for i in CACHE},
        },
    ),
    "kv_ring": (
        {
            "input_ids": (["batch_size", 1], "int64"),
            "position": (["batch_size"], "int64"),
            "length": (["batch_size"], "int64"),
            **{
                f"ring.{i}": (["batch_size", 2, 6, 4], "float32") for i in CACHE
            },
        },
        {
            "logits": (["batch_size", 1, 256], "float32"),
            **{f"new.{i}": (["batch_size", 2, 1, 4], "float32") for i in CACHE},
        },
    ),
}
"""Written from the contract, not from the code."""


def ring_feed():
    slots = np.random.default_rng(1).normal(size=(1, 2, 6, 4))
    return {
        "input_ids": np.full((1, 1), 7),
        "position": np.full(1, 8),
        "length": np.full(1, 6),
        **{f"ring.{name}": slots.astype("float32") for name in CACHE},
    }


def described(values):
    return {
        value.name: (
            [
                size.dim_param or size.dim_value
                for size in value.type.tensor_type.shape.dim
            ],
            onnx.helper.tensor_dtype_to_np_dtype(
                value.type.tensor_type.elem_type
            ).name,
        )
        for value in values
    }


@pytest.mark.parametrize("flavour", SIGNATURES)
def test_names_shapes_and_dtypes_are_those_of_the_contract(
    onnx_folders, flavour
):
    model = onnx.load(onnx_folders[flavour] / MODEL_NAME)
    inputs, outputs = SIGNATURES[flavour]
    assert described(model.graph.input) == inputs
    assert described(model.graph.output) == outputs
    assert {node.domain for node in model.graph.node} == {""}
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("LayerNormalization") == 4  # two a layer
    assert flavour != "kv_ring" or len(kinds) < 150  # each costs microseconds
    products = [n for n in model.graph.node if n.op_type == "Gemm"]
    for attribute in (a for node in products for a in node.attribute):
        assert (attribute.name, attribute.f) != ("beta", 0)
    assert [(i.domain, i.version) for i in model.opset_import] == [("", 17)]
    told = {
        entry.key: json.loads(entry.value) for entry in model.metadata_props
    }
    manifest = verify_manifest(onnx_folders[flavour])
    assert told["model"] == manifest["model"]
    assert told["flavour"] == manifest["flavour"] == flavour
    for name, wanted in zip(("inputs", "outputs"), (inputs, outputs)):
        found = manifest["signatures"]["step"][name]
        assert {n: (v["shape"], v["dtype"]) for n, v in found.items()} == wanted


@pytest.mark.parametrize("flavour", SIGNATURES)
def test_the_measured_error_is_within_the_contract(onnx_folders, flavour):
    errors = verify_manifest(onnx_folders[flavour])["check"]["max_abs_error"]
    assert 0 < errors["logits"] <= 1e-4
    assert ("memory" in errors) == (flavour == "hidden")


def test_tokenizer_files_stand_beside_the_model(onnx_folders):
    for folder in onnx_folders.values():
        lines = (folder / "vocab.txt").read_text().splitlines()
        assert (len(lines), lines[65]) == (256, "<0x41>")
        tokenizer = tokenizers.Tokenizer.from_file(
            str(folder / "tokenizer.json")
        )
        text = "é\n\tnaïve  \U0001f642 <|x|>\x00"
        ids = tokenizer.encode(text).ids
        assert bytes(ids) == text.encode()
        assert tokenizer.decode(ids) == text
        assert (
            json.loads((folder / "manifest.json").read_text())["tokenizer"][
                "kind"
            ]
            == "bytes"
        )


def test_large_weights_go_into_a_file_of_their_own(
    onnx_folders, tmp_path, monkeypatch
):
    model = onnx.load(onnx_folders["kv_ring"] / MODEL_NAME)
    monkeypatch.setattr(onnx_file, "LARGEST_FILE", 1000)
    onnx_file.save(model, tmp_path)
    assert (tmp_path / DATA_NAME).stat().st_size > 1000
    whole = onnx_file.file_size(onnx_folders["kv_ring"])
    assert 0.9 < onnx_file.file_size(tmp_path) / whole < 1.1
    feed = ring_feed()
    for one, other in zip(
        open_session(tmp_path / MODEL_NAME).run(None, feed),
        open_session(onnx_folders["kv_ring"] / MODEL_NAME).run(None, feed),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_a_matrix_that_no_onnx_file_can_hold_is_named(monkeypatch):
    model = onnx.ModelProto()
    model.graph.input.add(name="weight_0000:0")
    weight = keras.Variable(np.zeros([5, 5], "float32"), name="embeddings")
    monkeypatch.setattr(onnx_conversion, "LARGEST_FILE", 99)
    with pytest.raises(ValueError, match="embeddings of 100 bytes.*cutoffs"):
        onnx_conversion._fill_in_weights(model, [weight])


def test_a_file_that_computes_anything_else_is_not_left_behind(
    onnx_folders, byte_lm, tmp_path, monkeypatch
):
    model = onnx.load(onnx_folders["kv_ring"] / MODEL_NAME)
    tables = [t for t in model.graph.initializer if list(t.dims) == [2, 7, 4]]
    for tensor in tables:  # W_kR R of a layer: distances off by one
        rows = np.roll(onnx.numpy_helper.to_array(tensor), 1, axis=1)
        tensor.CopyFrom(onnx.numpy_helper.from_array(rows, tensor.name))
    assert len(tables) == 2
    monkeypatch.setattr(
        "keras_txl.export.onnx_format.convert", lambda *arguments: model
    )
    with pytest.raises(ExportMismatchError, match="Nothing was written"):
        export_onnx(byte_lm, tmp_path / "new", "kv_ring")
    assert not list(tmp_path.iterdir())


SWITCHES = {
    "adaptive, one head": (
        "hidden",
        {
            "num_heads": 1,
            "position": "relative_learned",
            "max_distance": 5,
            "cutoffs": (5, 11),
            "div_val": 2,
            "activation": "gelu",
            "attend_empty_memory": True,
        },
    ),
    "clipped": (
        "kv",
        {
            "position": "relative_clipped",
            "max_distance": 3,
            "relative_values": True,
            "attention_logit_cap": 2.0,
            "attention_window": 4,
            "memory_layer_norm": True,
        },
    ),
    "learned": (
        "kv_ring",
        {
            "position": "relative_learned",
            "max_distance": 5,
            "normalize_first": True,
            "dtype": "bfloat16",
            "memory_dtype": "bfloat16",
        },
    ),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_of_the_architecture_are_exported(make_lm, tmp_path, name):
    flavour, switches = SWITCHES[name]
    lm = make_lm(num_layers=1, batch_size=None, **switches)
    folder = export_onnx(lm, tmp_path / "model", flavour, memory_length=9)
    manifest = verify_manifest(folder)
    assert manifest["model"]["memory_length"] == 9
    assert manifest["tokenizer"] is None
    assert manifest["check"]["max_abs_error"]["logits"] <= 1e-4


def test_quantized_files_are_smaller_and_measured(
    make_lm, tmp_path, monkeypatch
):
    lm = make_lm(hidden_dim=64, intermediate_dim=256, batch_size=None)
    exact = export_onnx(lm, tmp_path / "exact", "kv_ring")
    model = onnx.load(exact / MODEL_NAME)
    monkeypatch.setattr(
        "keras_txl.export.onnx_format.convert", lambda *arguments: model
    )
    sizes = {}
    for quantize in ("int8", "fp16"):
        folder = export_onnx(
            lm, tmp_path / quantize, "kv_ring", quantize=quantize
        )
        manifest = verify_manifest(folder)
        assert manifest["quantization"] == quantize
        assert 0 < manifest["check"]["mean_loss_difference"] < 0.1
        sizes[quantize] = onnx_file.file_size(folder)
        names = {entry.name for entry in folder.iterdir()}
        assert names == {entry.name for entry in exact.iterdir()}
        small = onnx.load(folder / MODEL_NAME)
        assert described(small.graph.input) == described(model.graph.input)
        assert {n.domain for n in small.graph.node} == {""}
    whole = onnx_file.file_size(exact)
    assert sizes["int8"] < 0.6 * whole and sizes["fp16"] < 0.8 * whole


def test_16_bits_hold_neither_distances_nor_lengths(tmp_path):
    """Beyond 2,048 not every integer is a number of 16 bits."""
    node = onnx.helper.make_node
    kinds = onnx.TensorProto
    numbers = onnx.numpy_helper.from_array
    graph = onnx.helper.make_graph(
        [
            node("Cast", ["position"], ["distance"], "a", to=kinds.FLOAT),
            node("Mul", ["distance", "half"], ["angle"], "b"),
            node("Sin", ["angle"], ["sine"], "c"),
            node("Max", ["distance", "least"], ["largest"], "d"),
            node("Cast", ["largest"], ["length"], "e", to=kinds.INT64),
            node("Mul", ["sine", "half"], ["product"], "f"),
        ],
        "graph",
        [onnx.helper.make_tensor_value_info("position", kinds.INT64, [1])],
        [
            onnx.helper.make_tensor_value_info("product", kinds.FLOAT, [1]),
            onnx.helper.make_tensor_value_info("length", kinds.INT64, [1]),
        ],
        [
            numbers(np.array([0.5], "float32"), "half"),
            numbers(np.array([0.0], "float32"), "least"),
        ],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, tmp_path / MODEL_NAME)
    quantize_folder(str(tmp_path), "fp16")
    session = onnxruntime.InferenceSession(tmp_path / MODEL_NAME)
    product, length = session.run(None, {"position": np.array([5001])})
    assert length == 5001
    assert abs(product - 0.5 * np.sin(2500.5)) < 1e-3
    small = onnx.load(tmp_path / MODEL_NAME)
    assert any(
        attribute.i == kinds.FLOAT16
        for node in small.graph.node
        if node.op_type == "Cast"
        for attribute in node.attribute
    )


def test_arguments_out_of_range_are_refused_at_once(byte_lm, tmp_path):
    for arguments, message in (
        ({"flavour": "ring"}, "`flavour` must be one of"),
        ({"opset": 19}, "`opset` must be from 13 to 18"),
        ({"quantize": "int4"}, "`quantize` must be None or one of"),
        ({"memory_length": -1}, "`memory_length`"),
        ({"memory_length": 0}, "memory of at least one token"),
    ):
        with pytest.raises(ValueError, match=message):
            export_onnx(byte_lm, tmp_path / "new", **arguments)
    assert not list(tmp_path.iterdir())


def test_requests_that_do_not_fit_are_errors_of_the_runtime(onnx_folders):
    session = open_session(onnx_folders["kv_ring"] / MODEL_NAME)
    ring = {f"ring.{name}": np.zeros((1, 2, 6, 4), "float32") for name in CACHE}
    feed = {
        "input_ids": np.zeros((1, 1), "int64"),
        "position": np.zeros(1, "int64"),
        "length": np.zeros(1, "int64"),
        **ring,
    }
    session.run(None, feed)
    with pytest.raises(Exception, match="out of data bounds"):
        session.run(None, {**feed, "input_ids": np.full((1, 1), 256)})
    with pytest.raises(Exception, match="ring.1.value"):
        session.run(
            None, {**feed, "ring.1.value": np.zeros((1, 2, 5, 4), "float32")}
        )


def test_an_exported_model_opens_as_a_stream(onnx_folders, exported):
    for folder in onnx_folders.values():
        runner = open_onnx(folder)
        segment = {
            "token_ids": np.array([[65, 66, 67]], "int32"),
            "token_length": np.array([3], "int32"),
        }
        outputs, state = runner.step(segment, runner.start(1))
        assert outputs["logits"].shape == (1, 3, 256)
        outputs, state = runner.step(segment, state)
    with pytest.raises(ValueError, match="must hold an ONNX model"):
        open_onnx(exported[1])
