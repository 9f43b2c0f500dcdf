"""From the function of a graph to an ONNX model with the names of the contract.

The converter writes some files that are wrong without a word, so nothing that
comes from here counts before `onnx_sessions.py` has run it.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.export.onnx_file import LARGEST_FILE
from keras_txl.export.onnx_folding import fold_constants
from keras_txl.export.onnx_norms import fuse_norms
from keras_txl.export.onnx_signature import Graph
from keras_txl.layers.memory_parts import keys_in_one

OPSET = 17
OPSETS = (13, 18)
"""The smallest and the largest that the converter writes."""


def check_opset(opset: Any) -> int:
    """Return the version of the operator set, if it can be written.

    Raises:
        ValueError: if it cannot.
    """
    check_integer("opset", opset, 1)
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise ValueError(
            f"`opset` must be from {OPSETS[0]} to {OPSETS[1]}. Received: "
            f"opset={opset}. Use {OPSET} unless a runtime is older."
        )
    return int(opset)


def convert(graph: Graph, opset: int = OPSET) -> Any:
    """Convert a graph.

    The converter never sees the weights, only inputs that stand for them:
    TensorFlow's own files end at 2 GB.

    Args:
        graph: on TensorFlow.
        opset: version of ONNX's operator set.

    Returns:
        An `onnx.ModelProto`.

    Raises:
        RuntimeError: if an operation has no counterpart in ONNX.
    """
    import keras
    import tensorflow as tf
    from tf2onnx import convert as converter

    signature = [
        tf.TensorSpec(
            [size if isinstance(size, int) else None for size in value.shape],
            value.dtype,
            name=name,
        )
        for name, value in zip(
            _names("input", graph.inputs), graph.inputs, strict=True
        )
    ]
    signature += [
        tf.TensorSpec(weight.shape, weight.dtype, name=name)
        for name, weight in zip(
            _names("weight", graph.weights), graph.weights, strict=True
        )
    ]

    @tf.function(input_signature=signature, autograph=False)
    def function(*tensors: Any) -> dict[str, Any]:
        count = len(graph.inputs)
        mapping = zip(graph.weights, tensors[count:], strict=True)
        with keras.StatelessScope(state_mapping=list(mapping)):
            outputs = graph.function(*tensors[:count])
        named = zip(_names("output", graph.outputs), outputs, strict=True)
        return {name: tf.identity(output) for name, output in named}

    with keys_in_one(), _reshapes_that_copy_a_size():
        model, _ = converter.from_function(
            function,
            input_signature=signature,
            opset=opset,
            custom_op_handlers={"Erfc": (_complement_of_erf, [])},
        )
    _check_operations(model)
    _fill_in_weights(model, graph.weights)
    fold_constants(model)
    fuse_norms(model)
    _normalize_products(model)
    _rename(model, graph)
    return model


@contextmanager
def _reshapes_that_copy_a_size() -> Iterator[None]:
    """A reshape stays in front of one that copies a size of its result.

    tf2onnx 1.17 drops the first of two, and a 0 in the shape of the second
    then copies a size of something else. It happens with one head, where
    transpositions become reshapes.
    """
    from tf2onnx.optimizer import back_to_back_optimizer

    # Another version may be built otherwise; the check of an export remains.
    rules = getattr(back_to_back_optimizer, "_func_map", {})
    merge = rules.get(("Reshape",), lambda *_: [])

    def merge_unless_copied(graph: Any, node: Any, consumers: Any) -> Any:
        shapes = [consumer.inputs[1] for consumer in consumers]
        if any(
            shape.is_const() and 0 in shape.get_tensor_value(as_list=True)
            for shape in shapes
        ):
            return []
        return merge(graph, node, consumers)

    with mock.patch.dict(rules, {("Reshape",): merge_unless_copied}):
        yield


def _complement_of_erf(context: Any, node: Any, *_: Any) -> None:
    """Erfc, which the exact GELU of Keras uses and ONNX has not: 1 - erf."""
    (name,) = node.output
    shape, dtype = context.get_shape(name), context.get_dtype(name)
    context.remove_node(node.name)
    erf = context.make_node("Erf", node.input)
    one = context.make_const(f"{node.name}_one", np.array(1, "float32"))
    context.make_node(
        "Sub",
        [one.output[0], erf.output[0]],
        outputs=[name],
        shapes=[shape],
        dtypes=[dtype],
    )


def _names(kind: str, things: Sequence[Any]) -> list[str]:
    return [f"{kind}_{index:04}" for index in range(len(things))]


def _fill_in_weights(model: Any, weights: Sequence[Any]) -> None:
    """Turn the inputs that stand for weights into weights."""
    from keras import ops
    from onnx import numpy_helper

    by_name = dict(zip(_names("weight", weights), weights, strict=True))
    for value in list(model.graph.input):
        weight = by_name.get(value.name.removesuffix(":0"))
        if weight is None:
            continue
        model.graph.input.remove(value)
        array = np.asarray(ops.convert_to_numpy(weight.value))
        if array.nbytes > LARGEST_FILE:  # even where it lies in another file
            raise ValueError(
                "A matrix must be smaller than 2 GB for ONNX. Received: "
                f"{weight.path} of {array.nbytes} bytes. Use a smaller "
                "vocabulary, or cutoffs that split it."
            )
        _rename_value(model, value.name, weight.path)
        model.graph.initializer.append(
            numpy_helper.from_array(array, weight.path)
        )


def _check_operations(model: Any) -> None:
    """Every operation must be one of ONNX itself."""
    import onnx

    (version,) = (
        entry.version for entry in model.opset_import if not entry.domain
    )
    strange = set()
    for node in model.graph.node:
        try:
            onnx.defs.get_schema(node.op_type, version, node.domain)
        except onnx.defs.SchemaError:
            strange.add(node.op_type)
    if strange:
        raise RuntimeError(
            "Every operation of the model must exist in ONNX. Received: "
            f"{', '.join(sorted(strange))}, which opset {version} has not. "
            "Please report this with the model's configuration."
        )
    del model.opset_import[:]  # the converter names domains it does not use
    model.opset_import.append(onnx.helper.make_opsetid("", version))


def _normalize_products(model: Any) -> None:
    """Give products without a bias the form that quantization knows.

    The converter writes `beta=0` where there is nothing that it multiplies.
    """
    for node in model.graph.node:
        if node.op_type == "Gemm" and len(node.input) == 2:
            for attribute in node.attribute:
                if attribute.name == "beta":
                    attribute.f = 1.0


def _rename(model: Any, graph: Graph) -> None:
    """Give inputs, outputs and their free axes the names of the contract."""
    told = [*model.graph.input, *model.graph.output]
    wanted = [*graph.inputs, *graph.outputs]
    expected = _names("input", graph.inputs) + _names("output", graph.outputs)
    found = [value.name.removesuffix(":0") for value in told]
    if found != expected:
        raise RuntimeError(
            "The converter must keep all inputs and outputs. Received: "
            f"{found}, expected {expected}. Please report this with the "
            "model's configuration."
        )
    for value, new in zip(told, wanted, strict=True):
        _rename_value(model, value.name, new.name)
        value.name = new.name
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in new.shape:
            axis = shape.dim.add()
            if isinstance(size, int):
                axis.dim_value = size
            else:
                axis.dim_param = size


def _rename_value(model: Any, old: str, new: str) -> None:
    for node in model.graph.node:
        for ends in (node.input, node.output):
            for index, name in enumerate(ends):
                if name == old:
                    ends[index] = new
