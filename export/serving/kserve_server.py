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
import queue
import threading
from concurrent.futures import Future
from typing import Any

import kserve
import numpy as np
import tensorflow as tf
from joined_requests import run_joined
from kserve.utils.numpy_codec import from_np_dtype

DEFAULT = "serving_default"
REFUSALS = (tf.errors.InvalidArgumentError, LookupError, TypeError, ValueError)


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
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def load(self) -> bool:
        """Read the files; the server is ready behind this."""
        self.signatures = tf.saved_model.load(self.folder).signatures
        threading.Thread(target=self._work, daemon=True).start()
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
            answer: Future[Any] = Future()
            self.requests.put((name, inputs, answer))
            outputs = await asyncio.wrap_future(answer)
        except REFUSALS as error:
            raise kserve.errors.InvalidInput(str(error)) from error
        if by_rows:
            return _write_rows(outputs)
        return _write_columns(payload, self.name, outputs)

    def _typed(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Arrays of the signature's types, for numbers of JSON."""
        specs = self.signatures[name].structured_input_signature[1]
        if set(inputs) != set(specs):
            raise ValueError(
                f"{name} must get {sorted(specs)}. Received: {sorted(inputs)}."
            )
        return {
            key: tf.constant(value, specs[key].dtype).numpy()
            for key, value in inputs.items()
        }

    def _work(self) -> None:
        """Answer whoever waits, those of one signature together."""
        left: list[Any] = []
        while True:
            waiting = left or [self.requests.get()]
            while not self.requests.empty():
                waiting.append(self.requests.get())
            name = waiting[0][0]
            chosen, left = [], []
            for one in waiting:
                fits = one[0] == name and len(chosen) < self.most_requests
                (chosen if fits else left).append(one)
            self._run(name, chosen)

    def _run(self, name: str, chosen: list[Any]) -> None:
        answers = [answer for _, _, answer in chosen]
        try:
            found = run_joined(
                lambda arrays: self._call(name, arrays),
                [inputs for _, inputs, _ in chosen],
                REFUSALS,
            )
        except Exception as error:  # the thread must live on
            found = [error] * len(chosen)
        for answer, outputs in zip(answers, found, strict=True):
            if not answer.set_running_or_notify_cancel():
                continue  # the client has gone
            if isinstance(outputs, Exception):
                answer.set_exception(outputs)
            else:
                answer.set_result(outputs)

    def _call(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        outputs = self.signatures[name](
            **{key: tf.constant(value) for key, value in inputs.items()}
        )
        return {key: value.numpy() for key, value in outputs.items()}


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
    kserve.ModelServer(
        http_port=options.http_port,
        enable_grpc=options.enable_grpc,
        workers=1,
    ).start([model])


if __name__ == "__main__":
    main()
