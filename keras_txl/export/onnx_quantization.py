"""Smaller ONNX files: weights in 8 bits, or everything in 16.

Inputs and outputs keep their names and dtypes, so drivers notice nothing.
"""

from pathlib import Path
from typing import Any

from keras_txl.export.onnx_file import MODEL_NAME
from keras_txl.export.onnx_file import load
from keras_txl.export.onnx_file import save

QUANTIZATIONS = ("int8", "fp16")

TOLERANCES = {"int8": 0.2, "fp16": 0.02}
"""Nats by which the loss of a token of the check may change on average."""


def check_quantization(quantize: Any) -> None:
    """Raise `ValueError` unless it is `None` or a known form."""
    if quantize is not None and quantize not in QUANTIZATIONS:
        raise ValueError(
            f"`quantize` must be None or one of "
            f"{', '.join(map(repr, QUANTIZATIONS))}. Received: "
            f"quantize={quantize!r}."
        )


def quantize_folder(folder: str, quantize: str) -> None:
    """Replace `model.onnx` by a smaller one.

    Args:
        folder: that holds it.
        quantize: `"int8"`: matrices and embeddings in 8 bits with a scale for
            each column, products in integers. `"fp16"`: all in 16 bits but
            the angles of distances.
    """
    makers = {"int8": _in_int8, "fp16": _in_fp16}
    model = makers[quantize](load(Path(folder)), Path(folder))
    save(model, Path(folder))


def _in_int8(model: Any, folder: Path) -> Any:
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization import quantize_dynamic

    matrices = {
        tensor.name
        for tensor in model.graph.initializer
        if len(tensor.dims) == 2
    }
    # By column, a constant of three axes would end in an invalid file.
    excluded = [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1] not in matrices
    ]
    small = folder / f".int8.{MODEL_NAME}"
    try:
        quantize_dynamic(
            folder / MODEL_NAME,
            small,
            op_types_to_quantize=["MatMul", "Gemm", "Gather"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=excluded,
            extra_options={"MatMulConstBOnly": True},
        )
        return load(folder, small.name)
    finally:
        small.unlink(missing_ok=True)


def _in_fp16(model: Any, folder: Path) -> Any:
    from onnx.shape_inference import infer_shapes
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    model = infer_shapes(model)
    exact = {*_angles(model), *_lengths(model)}
    _hide_values_between(model, exact)
    small = convert_float_to_float16(
        model,
        keep_io_types=True,
        disable_shape_infer=True,
        node_block_list=sorted(exact),
    )
    # Its casts stand behind the nodes that they feed.
    OnnxModel(small).topological_sort()
    return small


def _hide_values_between(model: Any, names: set[str]) -> None:
    """Let what these nodes hand to each other stay in 32 bits.

    The converter keeps the nodes exact, but rounds on the way from one to the
    other every value whose type is told.
    """
    inside = {
        output
        for node in model.graph.node
        if node.name in names
        for output in node.output
    }
    for node in model.graph.node:
        if node.name not in names:
            inside.difference_update(node.input)
    told = [v for v in model.graph.value_info if v.name not in inside]
    del model.graph.value_info[:]
    model.graph.value_info.extend(told)


def _angles(model: Any) -> list[str]:
    """The nodes before sines and cosines: 16 bits cannot hold a distance."""
    nodes = [n for n in model.graph.node if n.op_type in ("Sin", "Cos")]
    return _and_before(model, nodes)


def _lengths(model: Any) -> list[str]:
    """The nodes between integers: tf2onnx takes a maximum of them as floats."""
    from onnx import TensorProto

    integers = (TensorProto.INT32, TensorProto.INT64)
    nodes = [
        node
        for node in model.graph.node
        if node.op_type == "Cast" and node.attribute[0].i in integers
    ]
    return _and_before(model, nodes, until=("Cast", "Shape"))


def _and_before(
    model: Any, nodes: list[Any], until: tuple[str, ...] = ()
) -> list[str]:
    """The names of nodes and of all before them; others end at `until`."""
    makers = {name: node for node in model.graph.node for name in node.output}
    first = {node.name for node in nodes}
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.name in found:
            continue
        found.add(node.name)
        if node.name in first or node.op_type not in until:
            waiting += [makers[i] for i in node.input if i in makers]
    return sorted(found)
