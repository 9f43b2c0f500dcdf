"""A SavedModel in Triton's Python backend (see `triton_repository.py`)."""

import json
import sys
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The signature `step`, with memory of the client or of a sequence."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the SavedModel that the configuration names."""
        config = json.loads(args["model_config"])
        parameters = {
            key: value["string_value"]
            for key, value in config["parameters"].items()
        }
        for path in parameters["python_path"].split(":"):
            if path not in sys.path:
                sys.path.append(path)
        import tensorflow as tf

        self.tf = tf
        self.loaded = tf.saved_model.load(parameters["folder"])
        self.keeps_memory = parameters["signature"] == "session"
        self.inputs = [one["name"] for one in config["input"]]
        self.outputs = [one["name"] for one in config["output"]]
        self.memories: dict[int, dict[str, Any]] = {}

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request, with an error where it was refused."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        try:
            inputs = {name: self._input(request, name) for name in self.inputs}
            run = self._step_of_sequence if self.keeps_memory else self._step
            found = run(request, inputs)
        except (self.tf.errors.InvalidArgumentError, TypeError) as error:
            told = pb_utils.TritonError(str(error))
            return pb_utils.InferenceResponse([], told)
        # By DLPack, for the constructor reads arrays of NumPy 2 wrongly.
        outputs = [
            pb_utils.Tensor.from_dlpack(name, np.array(found[name]))
            for name in self.outputs
        ]
        return pb_utils.InferenceResponse(outputs)

    def _step(self, _: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        tensors = {k: self.tf.constant(value) for k, value in inputs.items()}
        found: dict[str, Any] = self.loaded.signatures["step"](**tensors)
        return found

    def _step_of_sequence(
        self, request: Any, inputs: dict[str, Any]
    ) -> dict[str, Any]:
        start, end, sequence = (
            int(self._input(request, name).flat[0])
            for name in ("START", "END", "CORRID")
        )
        rows, length = inputs["token_ids"].shape
        if start:
            ones = self.tf.ones([rows], self.tf.int32)
            initial = self.loaded.signatures["initial_memory"](rows=ones)
            self.memories[sequence] = initial
        memory = self.memories[sequence]
        inputs["token_length"] = np.full([rows], length, "int32")
        found = self._step(request, {**inputs, **memory})
        self.memories[sequence] = {k: found[f"new_{k}"] for k in memory}
        if end:
            del self.memories[sequence]
        return found

    def _input(self, request: Any, name: str) -> Any:
        # By DLPack, for `as_numpy` makes wrong arrays of NumPy 2.
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        return np.array(np.from_dlpack(tensor))
