"""Norms as the one operation that ONNX has for them from opset 17 on.

The converter writes a dozen for each, which a runtime starts one by one.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

FIRST_OPSET = 17

Pattern = str | tuple[Any, ...]
"""A name, or an operation and the patterns of its inputs."""

NORM: Pattern = (
    "Add",
    ("Mul", "hidden", "scale"),
    ("Add", ("Mul", ("Neg", "mean"), "scale"), "beta"),
)

MADE_BY: dict[str, Pattern] = {
    "scale": (
        "Mul",
        ("Reciprocal", ("Sqrt", ("Add", "variance", "epsilon"))),
        "gamma",
    ),
    "variance": ("Mean", ("Mul", "difference", "difference")),
    "difference": ("Sub", "hidden", "mean"),
    "mean": ("Mean", "hidden"),
}
"""What must stand behind a name of the pattern."""

MEANS = ("ReduceMean", "GlobalAveragePool")

Names = dict[str, str]


def fuse_norms(model: Any) -> None:
    """Write each layer normalization as one node.

    Args:
        model: an `onnx.ModelProto` behind `fold_constants`, changed in place.
            Below opset 17 it stays as it is, as does every norm that is
            written in another way.
    """
    from onnx import helper
    from onnx import numpy_helper

    if model.opset_import[0].version < FIRST_OPSET:
        return
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    constants = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
    }
    for index, node in enumerate(graph.node):
        names = _norm_of(node.output[0], makers, constants)
        if names is None:
            continue
        inputs = [names["hidden"]]
        for name in ("gamma", "beta"):
            inputs.append(f"{names[name]}/row")
            if inputs[-1] not in constants:
                constants[inputs[-1]] = constants[names[name]].reshape(-1)
                graph.initializer.append(
                    numpy_helper.from_array(constants[inputs[-1]], inputs[-1])
                )
        graph.node[index].CopyFrom(
            helper.make_node(
                "LayerNormalization",
                inputs,
                list(node.output),
                name=f"{node.name}/norm",
                axis=-1,
                epsilon=float(constants[names["epsilon"]]),
            )
        )
    _drop_unused(graph)


def _norm_of(name: str, makers: Any, constants: Any) -> Names | None:
    """The names of a norm's parts, if `name` is what one returns."""
    for names in _match(NORM, name, {}, makers):
        parts = [constants.get(names[part]) for part in ("gamma", "beta")]
        epsilon = constants.get(names["epsilon"])
        if epsilon is None or epsilon.size != 1:
            continue
        if all(p is not None and p.size == p.shape[-1] for p in parts):
            return names
    return None


def _match(
    pattern: Pattern, name: str, names: Names, makers: Any
) -> Iterator[Names]:
    """All ways to read the value `name` as the pattern."""
    if isinstance(pattern, str):
        if pattern in names:
            if names[pattern] == name:
                yield names
            return
        names = {**names, pattern: name}
        if pattern in MADE_BY:
            yield from _match(MADE_BY[pattern], name, names, makers)
        else:
            yield names
        return
    kind, *parts = pattern
    node = makers.get(name)
    if node is None or not _is_a(node, kind):
        return
    inputs = list(node.input[: len(parts)])
    orders = permutations(inputs) if kind in ("Add", "Mul") else [inputs]
    for order in orders:
        found = [names]
        for part, given in zip(parts, order, strict=True):
            found = [
                more
                for known in found
                for more in _match(part, given, known, makers)
            ]
        yield from found


def _is_a(node: Any, kind: str) -> bool:
    return node.op_type in MEANS if kind == "Mean" else node.op_type == kind


def _drop_unused(graph: Any) -> None:
    """Remove nodes and weights that no output depends on."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed.update(node.input)
    kept.reverse()
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:]
    graph.node.extend(kept)
    del graph.initializer[:]
    graph.initializer.extend(weights)
