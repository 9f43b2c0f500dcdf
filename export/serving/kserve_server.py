"""Serve a SavedModel with KServe's Python server.

    pip install kserve tensorflow
    python export/serving/kserve_server.py served/my_model/1 --name my_model

For those without TensorFlow Serving. `keras_txl` is not needed on the server.
Clients choose a signature by `signature_name`, in the body of the first
protocol and among the parameters of the second; `step` is the default:

    session = StreamSession(KServeV2("http://localhost:8080", "my_model"))

The server keeps nothing of a session: any number of replicas may run. Requests
that arrive while others run wait, and then run together.
"""

import argparse
import asyncio
import json
from typing import Any

import kserve
import numpy as np
import tensorflow as tf
from joined_requests import RequestQueue
from kserve.constants.constants import INFERENCE_CONTENT_LENGTH_HEADER
from kserve.protocol.dataplane import DataPlane
from kserve.utils.numpy_codec import from_np_dtype

DEFAULT = "serving_default"
REFUSALS = (tf.errors.InvalidArgumentError, LookupError, TypeError, ValueError)
MALFORMED = (AttributeError, LookupError, TypeError, ValueError)


class SavedModel(kserve.Model):
    """The signatures of a SavedModel as one model of KServe.

    Args:
        name: of the model.
        folder: version folder.
        most_requests: int. How many may run together.
    """

    def __init__(self, name: str, folder: str, most_requests: int) -> None:
        super().__init__(name)
        self.folder = folder
        self.most_requests = most_requests

    def load(self) -> bool:
        """Read the files; the server is ready behind this."""
        self.signatures = tf.saved_model.load(self.folder).signatures
        self.queue = RequestQueue(self._call, REFUSALS, self.most_requests)
        self.ready = True
        return True

    async def predict(
        self, payload: Any, headers: Any = None, response_headers: Any = None
    ) -> Any:
        """Run a signature on a request of either protocol."""
        by_rows = isinstance(payload, dict)
        read = _read_rows if by_rows else _read_columns
        try:
            name, inputs = read(payload)
            inputs = self._typed(name, inputs)
            outputs = await asyncio.wrap_future(self.queue.put(name, inputs))
        except REFUSALS as error:
            raise kserve.errors.InvalidInput(str(error)) from error
        if by_rows:
            return _write_rows(outputs)
        return _write_columns(payload, self.name, outputs)

    def _typed(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Arrays of the signature's types; numbers of JSON have none yet."""
        specs = self.signatures[name].structured_input_signature[1]
        if set(inputs) != set(specs):
            raise ValueError(
                f"{name} must get {sorted(specs)}. Received: {sorted(inputs)}."
            )
        arrays = {}
        for key, value in inputs.items():
            dtype = specs[key].dtype
            if not isinstance(value, np.ndarray):
                value = tf.constant(value, dtype).numpy()
            elif value.dtype != dtype.as_numpy_dtype:
                # TensorFlow would cut fractions off.
                raise TypeError(
                    f"`{key}` must be {dtype.name}. Received: {value.dtype}."
                )
            arrays[key] = value
        return arrays

    def _call(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        outputs = self.signatures[name](
            **{key: tf.constant(value) for key, value in inputs.items()}
        )
        return {key: value.numpy() for key, value in outputs.items()}


class BytesAsTheyAre(DataPlane):
    """KServe's, but numbers that come as bytes stay bytes.

    Its own makes a list of Python numbers of them, and an array of the list:
    with memory of 65,536 numbers that takes longer than the model.
    """

    def decode_inference_request(
        self, body: Any, headers: dict[str, str], model_name: str
    ) -> Any:
        """A request of the second protocol."""
        if isinstance(body, bytes):
            try:
                size = int(headers[INFERENCE_CONTENT_LENGTH_HEADER])
                told, rest = json.loads(body[:size]), memoryview(body)[size:]
                sizes = [_size_in_bytes(tensor) for tensor in told["inputs"]]
                if None not in sizes:
                    return _read_bytes(told, rest, sizes, model_name)
            except MALFORMED as error:
                raise kserve.errors.InvalidInput(
                    f"The request must follow KServe's protocol: {error!r}"
                ) from error
        return super().decode_inference_request(body, headers, model_name)


def _size_in_bytes(tensor: dict[str, Any]) -> int | None:
    """`None` for one whose numbers stand as text."""
    size: int | None = (tensor.get("parameters") or {}).get("binary_data_size")
    return size


def _read_bytes(
    told: dict[str, Any], rest: memoryview, sizes: list[Any], model_name: str
) -> Any:
    parts = []
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    tensors = [
        kserve.InferInput(one["name"], one["shape"], one["datatype"])
        for one in told["inputs"]
    ]
    parameters = told.get("parameters")
    return kserve.InferRequest(
        model_name, tensors, told.get("id"), parts, parameters=parameters
    )


def _read_rows(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    rows = payload["instances"]
    inputs = {name: [row[name] for row in rows] for name in rows[0]}
    return payload.get("signature_name", DEFAULT), inputs


def _write_rows(outputs: dict[str, Any]) -> dict[str, Any]:
    columns = {name: _to_json(value) for name, value in outputs.items()}
    return {
        "predictions": [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    }


def _read_columns(request: Any) -> tuple[str, dict[str, Any]]:
    parameters = request.parameters or {}
    inputs = {one.name: one.as_numpy() for one in request.inputs}
    return parameters.get("signature_name", DEFAULT), inputs


def _write_columns(request: Any, name: str, outputs: dict[str, Any]) -> Any:
    """As bytes behind the JSON where the client asks for them."""
    written = []
    for key, value in outputs.items():
        kind = from_np_dtype(value.dtype)
        written.append(kserve.InferOutput(key, list(value.shape), kind))
        written[-1].set_data_from_numpy(value, request.use_binary_outputs)
    return kserve.InferResponse(
        request.id or "",
        name,
        written,
        use_binary_outputs=request.use_binary_outputs,
    )


def _to_json(value: np.ndarray) -> Any:
    if value.dtype == object:
        return [item.decode("utf-8", "replace") for item in value]
    return value.tolist()


def main() -> None:
    """Load and serve."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        parents=[kserve.model_server.parser],
    )
    parser.add_argument("folder", help="version folder of the SavedModel")
    parser.add_argument("--name", default="my_model", help="of the model")
    parser.add_argument(
        "--most-requests",
        type=int,
        default=64,
        help="that run together; 1 runs each alone (default: 64)",
    )
    options = parser.parse_args()
    if options.most_requests < 1:
        parser.error("--most-requests must be at least 1")
    model = SavedModel(options.name, options.folder, options.most_requests)
    model.load()
    server = kserve.ModelServer(
        http_port=options.http_port,
        enable_grpc=options.enable_grpc,
        workers=1,
    )
    server.dataplane = BytesAsTheyAre(model_registry=server.registered_models)
    server.start([model])


if __name__ == "__main__":
    main()
