"""Functions of a model that are compiled once, not in each `fit`."""

from collections.abc import Callable
from typing import Any


class CompiledForModel:
    """Compiles a function for a model, and anew for one of other weights.

    Args:
        compile: takes the model and returns the compiled function.
    """

    def __init__(self, compile: Callable[[Any], Callable[..., Any]]) -> None:
        self._compile = compile
        self._key: tuple[int, ...] = ()
        self._function: Callable[..., Any] | None = None

    def __call__(self, model: Any) -> Callable[..., Any]:
        # LoRA and quantization replace weights that a trace has captured.
        key = (id(model), *map(id, model.weights))
        if self._function is None or key != self._key:
            self._function, self._key = self._compile(model), key
        return self._function
