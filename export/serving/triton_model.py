"""A SavedModel in Triton's Python backend (see `triton_repository.py`)."""

import json
import sys
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from joined_requests import RequestQueue
from joined_requests import run_joined


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
        self.refusals = (tf.errors.InvalidArgumentError, TypeError, LookupError)
        if not self.keeps_memory:
            most_requests = int(parameters["most_requests"])
            self.queue = RequestQueue(self._call, self.refusals, most_requests)

    def execute(self, requests: list[Any]) -> list[Any] | None:
        """Answer the requests of sequences that Triton has joined.

        Those with memory of the client come one at a time: they wait here
        while others run, and are answered when they are done.
        """
        if not self.keeps_memory:
            for request in requests:
                self._wait(request)
            return None
        asked = [self._asked(request) for request in requests]
        found = run_joined(self._step, asked, self.refusals)
        answers = zip(requests, found, strict=True)
        return [self._answer(request, outputs) for request, outputs in answers]

    def _wait(self, request: Any) -> None:
        sender = request.get_response_sender()
        last = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

        def send(future: Any) -> None:
            found = future.exception() or future.result()
            sender.send(self._answer(request, found), last)

        self.queue.put("step", self._asked(request)).add_done_callback(send)

    def _asked(self, request: Any) -> dict[str, Any]:
        inputs = {name: _input(request, name) for name in self.inputs}
        if not self.keeps_memory:
            return inputs
        rows, length = inputs["token_ids"].shape
        sequence = _sequence(request)
        if int(_input(request, "START").flat[0]):
            ones = {"rows": np.ones(rows, "i4")}
            self.memories[sequence] = self._call("initial_memory", ones)
        return {
            **inputs,
            "token_length": np.full([rows], length, "int32"),
            **self.memories.get(sequence, {}),  # without: refused alone
        }

    def _answer(self, request: Any, found: Any) -> Any:
        refused = isinstance(found, Exception)
        if self.keeps_memory:
            sequence = _sequence(request)
            if not refused:
                self.memories[sequence] = {
                    name.removeprefix("new_"): value
                    for name, value in found.items()
                    if name.startswith("new_")
                }
            if int(_input(request, "END").flat[0]):
                self.memories.pop(sequence, None)
        if refused:
            told = pb_utils.TritonError(str(found))
            return pb_utils.InferenceResponse([], told)
        # By DLPack, for the constructor reads arrays of NumPy 2 wrongly.
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor.from_dlpack(name, np.array(found[name]))
                for name in self.outputs
            ]
        )

    def _step(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._call("step", inputs)

    def _call(self, signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        found = self.loaded.signatures[signature](
            **{key: self.tf.constant(value) for key, value in inputs.items()}
        )
        return {key: value.numpy() for key, value in found.items()}


def _sequence(request: Any) -> int:
    return int(_input(request, "CORRID").flat[0])


def _input(request: Any, name: str) -> Any:
    # By DLPack, for `as_numpy` makes wrong arrays of NumPy 2.
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return np.array(np.from_dlpack(tensor))
