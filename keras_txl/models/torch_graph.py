"""A function of tensors as a graph of PyTorch's own operations.

A token passes about a hundred layers and several hundred operations of Keras,
whose Python costs PyTorch more time than the work itself. A graph keeps the
operations alone.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import keras

EAGER_CALLS = 32
"""Calls before the trace, which costs about as much time as these."""


def as_torch_graph(
    model: keras.Model, function: Callable[..., Any]
) -> Callable[..., Any]:
    """On PyTorch, `function` with a graph behind its first calls.

    The graph writes in place what the function writes in place. It is traced
    anew for inputs of another shape or dtype.

    Args:
        model: the model, whose weights `function` may read.
        function: takes and returns nested structures of tensors, and decides
            by no value of theirs; else it stays as it is.

    Returns:
        A function of the same signature: `function` itself on other backends
        and with `run_eagerly`.
    """
    if keras.backend.backend() != "torch" or model.run_eagerly:
        return function
    return _TorchGraph(function)


class _TorchGraph:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._calls = 0
        self._graphs: dict[Any, Any] = {}

    def __call__(self, *args: Any) -> Any:
        self._calls += 1
        if self._calls <= EAGER_CALLS:
            return self._function(*args)
        leaves = keras.tree.flatten(args)
        key = tuple([(leaf.shape, leaf.dtype) for leaf in leaves])
        if key not in self._graphs:
            self._graphs[key] = self._trace(leaves, args)
        graph, structure = self._graphs[key]
        if graph is None:
            return self._function(*args)
        return keras.tree.pack_sequence_as(structure, graph(*leaves))

    def _trace(self, leaves: list[Any], args: Any) -> tuple[Any, Any]:
        """The graph from leaves to leaves, and the structure of its results.

        A function that asks for the value of a tensor has no graph. Weights
        are not copied: the graph reads the same tensors.
        """
        from torch.fx.experimental.proxy_tensor import make_fx

        structure: Any = None

        def run(*leaves: Any) -> list[Any]:
            nonlocal structure
            structure = self._function(
                *keras.tree.pack_sequence_as(args, leaves)
            )
            return list(keras.tree.flatten(structure))

        with contextlib.suppress(RuntimeError):
            graph = make_fx(run)(*leaves)
            graph.graph.eliminate_dead_code()
            graph.recompile()
            return graph, structure
        return None, None
