"""How a signature is called: four protocols and this process, one method.

Only the gRPC client needs a package (`tensorflow-serving-api`).
"""

import json
import os
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KSERVE_TYPES = {
    "bool": "BOOL",
    "float32": "FP32",
    "int32": "INT32",
    "int8": "INT8",
    "object": "BYTES",
}
NUMPY_TYPES = {kserve: name for name, kserve in KSERVE_TYPES.items()}
HEAD_LENGTH = "Inference-Header-Content-Length"


class RequestError(ValueError):
    """The server refused a request; to send it again would not help."""


class ServerUnavailableError(ConnectionError):
    """The server did not answer; the request may be sent again."""


class LocalSavedModel:
    """A SavedModel in this process, where a server is not needed or not there.

    Args:
        folder: the version folder that `export_saved_model` wrote.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        import tensorflow as tf

        self._loaded = tf.saved_model.load(os.fspath(folder))

    def predict(
        self, signature: str, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a signature, see `TensorFlowServingRest.predict`."""
        import tensorflow as tf

        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        try:
            outputs = self._loaded.signatures[signature](**tensors)
        except (tf.errors.InvalidArgumentError, TypeError) as error:
            raise RequestError(str(error)) from error
        return {name: value.numpy() for name, value in outputs.items()}


class TensorFlowServingRest:
    """The REST interface of TensorFlow Serving, `:predict` by columns.

    Numbers travel as text: for large memories gRPC is faster, and memory in
    bfloat16 needs it.

    Args:
        address: such as `"http://localhost:8501"`.
        model: name of the model.
        version: int. `None`: the newest that is loaded.
        timeout: seconds for one request.
    """

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        place = "" if version is None else f"/versions/{version}"
        self.url = f"{address.rstrip('/')}/v1/models/{model}{place}:predict"
        self.timeout = timeout

    def predict(
        self, signature: str, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a signature.

        Args:
            signature: its name.
            inputs: arrays by name; strings as arrays of `object`.

        Returns:
            Arrays by name. A single output has the name `output`.

        Raises:
            RequestError: if the server refuses the request.
            ServerUnavailableError: if it does not answer.
        """
        body = {
            "signature_name": signature,
            "inputs": {k: _to_json(value) for k, value in inputs.items()},
        }
        outputs = _post(self.url, body, self.timeout)[0]["outputs"]
        if not isinstance(outputs, dict):
            outputs = {"output": outputs}
        return {name: _from_json(value) for name, value in outputs.items()}


class KServeV1:
    """KServe's first protocol: rows of JSON at `/v1/models/MODEL:predict`.

    The protocol knows no signatures; servers that have several read the key
    `signature_name`, as TensorFlow Serving does.

    Args:
        address: such as `"http://localhost:8080"`.
        model: name of the model.
        timeout: seconds for one request.
    """

    def __init__(self, address: str, model: str, timeout: float = 60.0) -> None:
        self.url = f"{address.rstrip('/')}/v1/models/{model}:predict"
        self.timeout = timeout

    def predict(
        self, signature: str, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a signature, see `TensorFlowServingRest.predict`."""
        _check_rows(inputs)
        columns = {name: _to_json(value) for name, value in inputs.items()}
        rows = zip(*columns.values(), strict=True)
        body = {
            "signature_name": signature,
            "instances": [dict(zip(columns, row, strict=True)) for row in rows],
        }
        predictions = _post(self.url, body, self.timeout)[0]["predictions"]
        if not isinstance(predictions[0], dict):
            predictions = [{"output": value} for value in predictions]
        return {
            name: _from_json([row[name] for row in predictions])
            for name in predictions[0]
        }


class KServeV2:
    """KServe's second protocol (Open Inference Protocol), as Triton has it.

    The protocol knows no signatures: a model serves one, or reads the
    parameter `signature_name`.

    Args:
        address: such as `"http://localhost:8000"`.
        model: name of the model.
        timeout: seconds for one request.
        parameters: of every request.
        binary: bool. Numbers travel as bytes behind the JSON, an extension
            that KServe and Triton have and that is many times faster.
            `False`: as text, which every server reads.
    """

    def __init__(
        self,
        address: str,
        model: str,
        timeout: float = 60.0,
        parameters: Mapping[str, Any] | None = None,
        binary: bool = True,
    ) -> None:
        self.url = f"{address.rstrip('/')}/v2/models/{model}/infer"
        self.timeout = timeout
        self.parameters = dict(parameters or {})
        self.binary = binary

    def predict(
        self, signature: str, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a signature, see `TensorFlowServingRest.predict`."""
        tensors, behind = [], []
        for name, value in inputs.items():
            tensor: dict[str, Any] = {
                "name": name,
                "shape": list(value.shape),
                "datatype": _kserve_type(name, value),
            }
            if self.binary:
                behind.append(_to_bytes(value))
                size = {"binary_data_size": len(behind[-1])}
                tensor["parameters"] = size
            else:
                tensor["data"] = _flat(value)
            tensors.append(tensor)
        parameters = {"signature_name": signature, **self.parameters}
        if self.binary:
            parameters["binary_data_output"] = True
        body = {"parameters": parameters, "inputs": tensors}
        answer, content = _post(self.url, body, self.timeout, behind)
        outputs = {}
        for output in answer["outputs"]:
            dtype = NUMPY_TYPES[output["datatype"]]
            if "data" in output:
                values = np.array(output["data"], dtype)
            else:
                size = output["parameters"]["binary_data_size"]
                values = _from_bytes(content[:size], dtype)
                content = content[size:]
            outputs[output["name"]] = values.reshape(output["shape"])
        return outputs


class TensorFlowServingGrpc:
    """The gRPC interface of TensorFlow Serving.

    Answers may be as large as they are: gRPC's limit of 4 MB, which memory
    can exceed, is lifted.

    Args:
        address: such as `"localhost:8500"`.
        model: name of the model.
        version: int. `None`: the newest that is loaded.
        timeout: seconds for one request.
    """

    def __init__(
        self,
        address: str,
        model: str,
        version: int | None = None,
        timeout: float = 60.0,
    ) -> None:
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "The gRPC client needs the package tensorflow-serving-api. "
                "Install it with: pip install 'keras-txl[serving]'"
            ) from error
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            # Whoever sends again decides when; gRPC would wait minutes.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        self.channel = grpc.insecure_channel(address, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(
            self.channel
        )
        self.model = model
        self.version = version
        self.timeout = timeout

    def predict(
        self, signature: str, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a signature, see `TensorFlowServingRest.predict`."""
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = self.model
        request.model_spec.signature_name = signature
        if self.version is not None:
            request.model_spec.version.value = self.version
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        try:
            answer = self._stub.Predict(request, self.timeout)
        except grpc.RpcError as error:
            again = (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.ABORTED,
            )
            if error.code() in again:
                raise ServerUnavailableError(error.details()) from error
            raise RequestError(error.details()) from error
        return {
            name: np.array(tf.make_ndarray(value))
            for name, value in answer.outputs.items()
        }


def _check_rows(inputs: Mapping[str, Array]) -> None:
    """Rows of JSON can be sent of inputs that have the same number of them."""
    counts = {name: len(value) for name, value in inputs.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        told = ", ".join(f"{n} of {name}" for name, n in counts.items())
        raise RequestError(
            "There must be at least one row, and each input must have as many "
            f"rows as the others. Received: {told}."
        )


def _kserve_type(name: str, value: Array) -> str:
    if value.dtype.name not in KSERVE_TYPES:
        raise RequestError(
            f"This protocol has no such type as JSON. Received: {name} of "
            f"{value.dtype}. Export with memory_format float32 or int8, or "
            "use gRPC."
        )
    return KSERVE_TYPES[value.dtype.name]


def _post(
    url: str, body: dict[str, Any], timeout: float, behind: Sequence[Any] = ()
) -> tuple[Any, memoryview]:
    """Send JSON and the bytes behind it; what comes back is the same."""
    head = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if behind:
        headers[HEAD_LENGTH] = str(len(head))
        headers["Content-Type"] = "application/octet-stream"
    request = urllib.request.Request(url, b"".join([head, *behind]), headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            content = answer.read()
            size = int(answer.headers.get(HEAD_LENGTH, len(content)))
            return json.loads(content[:size]), memoryview(content)[size:]
    except urllib.error.HTTPError as error:
        told = error.read().decode("utf-8", "replace")
        if error.code in (502, 503, 504):
            raise ServerUnavailableError(told) from error
        raise RequestError(told) from error
    except (OSError, HTTPException, ValueError) as error:
        # Also an answer that was cut off.
        raise ServerUnavailableError(f"{url}: {error}") from error


def _flat(value: Array) -> list[Any]:
    if value.dtype == object:
        return [_text(item) for item in value.ravel()]
    flat: list[Any] = value.ravel().tolist()
    return flat


def _to_bytes(value: Array) -> bytes:
    """Numbers in little-endian order, strings behind their lengths."""
    if value.dtype != object:
        return value.astype(value.dtype.newbyteorder("<")).tobytes()
    texts = [_text(item).encode() for item in value.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _from_bytes(content: memoryview, dtype: str) -> Array:
    if dtype != "object":
        numbers = np.frombuffer(content, np.dtype(dtype).newbyteorder("<"))
        return numbers.astype(dtype)
    texts = []
    while content:
        (size,) = struct.unpack_from("<I", content)
        texts.append(bytes(content[4 : 4 + size]))
        content = content[4 + size :]
    return np.array(texts, object)


def _to_json(value: Array) -> Any:
    if value.dtype == object:
        return _nested(value, _text)
    return value.tolist()


def _nested(value: Array, change: Any) -> Any:
    return [
        _nested(item, change) if isinstance(item, np.ndarray) else change(item)
        for item in value
    ]


def _text(item: Any) -> str:
    """A string as JSON has it; bytes must be UTF-8."""
    try:
        return item.decode() if isinstance(item, bytes) else str(item)
    except UnicodeDecodeError as error:
        raise RequestError(
            f"Texts must be UTF-8. Received: {item!r}. Decode them first."
        ) from error


def _from_json(values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype == np.float64:
        return array.astype("float32")
    if array.dtype == np.int64:
        return array.astype("int32")
    return array.astype(object) if array.dtype.kind == "U" else array
