"""Serve a SavedModel with KServe's Python server, both of its protocols.

    pip install kserve tensorflow
    python export/serving/kserve_server.py served/my_model/1 --name my_model

For those without TensorFlow Serving. `keras_txl` is not needed on the server.
Clients choose a signature by `signature_name`, in the body of the first
protocol and among the parameters of the second; `step` is the default:

    session = StreamSession(KServeV1("http://localhost:8080", "my_model"))

The server keeps nothing of a session: any number of replicas may run.
"""

import argparse
from typing import Any

import kserve
import numpy as np
import tensorflow as tf
from kserve.utils.numpy_codec import from_np_dtype

DEFAULT = "serving_default"


class SavedModel(kserve.Model):
    """The signatures of a SavedModel as one model of KServe."""

    def __init__(self, name: str, folder: str) -> None:
        super().__init__(name)
        self.folder = folder

    def load(self) -> bool:
        """Read the files; the server is ready behind this."""
        self.signatures = tf.saved_model.load(self.folder).signatures
        self.ready = True
        return True

    def predict(
        self, payload: Any, headers: Any = None, response_headers: Any = None
    ) -> Any:
        """Run a signature on a request of either protocol."""
        try:
            if isinstance(payload, dict):
                return self._by_rows(payload)
            return self._by_columns(payload)
        except (tf.errors.InvalidArgumentError, KeyError, TypeError) as error:
            raise kserve.errors.InvalidInput(str(error)) from error

    def _by_rows(self, payload: dict[str, Any]) -> dict[str, Any]:
        rows = payload["instances"]
        inputs = {name: [row[name] for row in rows] for name in rows[0]}
        outputs = self._run(payload.get("signature_name"), inputs)
        columns = {name: _to_json(value) for name, value in outputs.items()}
        return {
            "predictions": [
                dict(zip(columns, row, strict=True))
                for row in zip(*columns.values(), strict=True)
            ]
        }

    def _by_columns(self, request: Any) -> Any:
        name = (request.parameters or {}).get("signature_name")
        inputs = {one.name: one.as_numpy() for one in request.inputs}
        outputs = []
        for key, value in self._run(name, inputs).items():
            kind = from_np_dtype(value.dtype)
            output = kserve.InferOutput(key, list(value.shape), kind)
            output.set_data_from_numpy(value, binary_data=False)
            outputs.append(output)
        return kserve.InferResponse(request.id or "", self.name, outputs)

    def _run(self, name: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        function = self.signatures[name or DEFAULT]
        specs = function.structured_input_signature[1]
        tensors = {
            key: tf.constant(value, specs[key].dtype)
            for key, value in inputs.items()
        }
        return {key: out.numpy() for key, out in function(**tensors).items()}


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
    options = parser.parse_args()
    model = SavedModel(options.name, options.folder)
    model.load()
    kserve.ModelServer(
        http_port=options.http_port,
        enable_grpc=options.enable_grpc,
        workers=1,
    ).start([model])


if __name__ == "__main__":
    main()
