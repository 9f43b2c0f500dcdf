"""Every export runs on TensorFlow, whatever backend trained the model."""

import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import Any

from keras_txl.export.fresh_process import call_in_fresh_process


def call_on_tensorflow(function: str, lm: Any, **arguments: Any) -> Any:
    """Call `function(lm, **arguments)` where Keras runs on TensorFlow.

    On another backend the model goes as a preset into a new process.

    Args:
        function: `"module:name"`; it takes the model first.
        lm: a `TransformerXLCausalLM`.
        **arguments: values that JSON can hold.

    Returns:
        What the function returned; it must be what JSON can hold.

    Raises:
        RuntimeError: with the message of an error in the new process.
    """
    import keras

    if keras.backend.backend() == "tensorflow":
        return _find(function)(lm, **arguments)
    with tempfile.TemporaryDirectory(prefix="keras_txl_") as preset:
        lm.save_to_preset(preset)
        return call_in_fresh_process(
            f"{__name__}:call_with_preset",
            {"function": function, "preset": preset, "arguments": arguments},
            {"KERAS_BACKEND": "tensorflow"},
        )


def call_with_preset(
    function: str, preset: str, arguments: dict[str, Any]
) -> Any:
    """What the new process does: load the model and call the function."""
    from keras_txl.models import TransformerXLCausalLM

    lm = TransformerXLCausalLM.from_preset(preset, batch_size=None)
    return _find(function)(lm, **arguments)


def _find(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
