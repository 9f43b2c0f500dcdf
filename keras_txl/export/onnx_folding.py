"""Computes once, in the file, what depends on weights alone."""

from collections import Counter
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LARGEST_COPY = 2**24
"""Bytes of a weight of which a second form may be stored."""

KEPT = ("ConstantOfShape", "Range", "RandomUniform", "RandomNormal")


def fold_constants(model: Any) -> None:
    """Replace nodes whose inputs are all constant by their outputs.

    A large weight that something else needs as it is, such as the table of
    tied embeddings, is not stored twice: its node stays.

    Args:
        model: an `onnx.ModelProto`, changed in place.
    """
    from onnx import numpy_helper

    graph = model.graph
    constants: dict[str, Array] = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
    }
    uses = Counter(name for node in graph.node for name in node.input)
    large = {
        name
        for name, array in constants.items()
        if array.nbytes > LARGEST_COPY and uses[name] > 1
    }
    known = set(constants) - large | {""}
    folded: list[Any] = []
    kept: list[Any] = []
    for node in graph.node:
        folds = node.op_type not in KEPT and set(node.input) <= known
        (folded if folds else kept).append(node)
        if folds:
            known.update(node.output)
    needed = {name for node in kept for name in node.input}
    needed |= {value.name for value in graph.output}
    computed = _run(folded, constants, needed, model)
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:]
    graph.node.extend(kept)
    del graph.initializer[:]
    graph.initializer.extend(weights)
    graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in computed.items()
    )


def _run(
    nodes: list[Any], constants: dict[str, Array], needed: set[str], model: Any
) -> dict[str, Array]:
    """The outputs of nodes that others need, weights given as inputs."""
    import onnxruntime
    from onnx import helper

    outputs = [name for node in nodes for name in node.output if name in needed]
    if not outputs:
        return {}
    inputs = {name for node in nodes for name in node.input} & set(constants)
    part = helper.make_model(
        helper.make_graph(
            nodes,
            "constants",
            [
                helper.make_tensor_value_info(
                    name,
                    helper.np_dtype_to_tensor_dtype(constants[name].dtype),
                    constants[name].shape,
                )
                for name in sorted(inputs)
            ],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
        ),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )
    session = onnxruntime.InferenceSession(
        part.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    values = session.run(outputs, {name: constants[name] for name in inputs})
    return dict(zip(outputs, values, strict=True))
