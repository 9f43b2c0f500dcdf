"""A stand-in for TensorFlow Serving, in a process without Keras.

    python server_double.py rest|grpc FOLDER PORT [MOST_REQUESTS]

It runs signatures as Serving's classic path does: a session of TensorFlow 1
and the names in the SignatureDef. It shows that clients and files agree on
names, types and codecs; of Serving's scheduler it says nothing. With
MOST_REQUESTS, that many requests that wait run together, as KServe's recipe
does it (for a benchmark). Over HTTP it answers TensorFlow Serving's `:predict`
by columns, KServe's first protocol by rows and KServe's second protocol.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import tensorflow as tf

KSERVE = {
    "FP32": "float32",
    "INT32": "int32",
    "INT8": "int8",
    "BOOL": "bool",
    "BYTES": "object",
}
HEAD_LENGTH = "Inference-Header-Content-Length"


class Runner:
    """The signatures of a SavedModel in a session of TensorFlow 1."""

    def __init__(self, folder, most_requests=1):
        self.queue = None
        if most_requests > 1:
            root = Path(__file__).resolve().parents[2]
            sys.path.append(str(root / "export" / "serving"))
            from joined_requests import RequestQueue

            self.queue = RequestQueue(
                self.call, (tf.errors.OpError, ValueError), most_requests
            )
        self.session = tf.compat.v1.Session(
            graph=tf.Graph(),
            config=tf.compat.v1.ConfigProto(
                intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
            ),
        )
        with self.session.graph.as_default():
            meta = tf.compat.v1.saved_model.load(
                self.session, ["serve"], folder
            )
        self.signatures = meta.signature_def

    def run(self, name, inputs):
        signature = self.signatures[name or "serving_default"]
        missing = sorted(set(signature.inputs) ^ set(inputs))
        if missing:
            raise ValueError(f"inputs missing or unknown: {missing}")
        arrays = {}
        for key, value in inputs.items():
            dtype = tf.as_dtype(signature.inputs[key].dtype).as_numpy_dtype
            if isinstance(value, np.ndarray) and value.dtype != dtype:
                raise ValueError(
                    f"{key} is to be {np.dtype(dtype)}, came {value.dtype}"
                )
            arrays[key] = np.asarray(value, dtype)
        if self.queue is None:
            return self.call(name, arrays)
        return self.queue.put(name, arrays).result()

    def call(self, name, arrays):
        signature = self.signatures[name or "serving_default"]
        feed = {
            signature.inputs[key].name: value for key, value in arrays.items()
        }
        fetch = {key: info.name for key, info in signature.outputs.items()}
        return self.session.run(fetch, feed)


def to_json(value):
    if value.dtype == object:
        return [item.decode("utf-8", "replace") for item in value]
    return value.tolist()


def to_bytes(value):
    if value.dtype != object:
        return value.tobytes()
    return b"".join(len(x).to_bytes(4, "little") + x for x in value.ravel())


def of_bytes(content, dtype):
    if dtype != "object":
        return np.frombuffer(content, dtype)
    texts = []
    while content:
        end = 4 + int.from_bytes(content[:4], "little")
        texts.append(content[4:end])
        content = content[end:]
    return np.array(texts, object)


class Handler(BaseHTTPRequestHandler):
    runner = None

    def do_GET(self):
        self.answer(200, {})

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        head = self.rfile.read(int(self.headers.get(HEAD_LENGTH, length)))
        self.behind = self.rfile.read(length - len(head))
        try:
            self.answer(200, *self.predict(json.loads(head)))
        except Exception as error:
            self.answer(400, {"error": str(error)})

    def predict(self, body):
        name = body.get("signature_name")
        if self.path.startswith("/v2/"):
            return self.predict_v2(body)
        if "instances" in body:
            names = body["instances"][0]
            inputs = {
                key: [row[key] for row in body["instances"]] for key in names
            }
            outputs = self.runner.run(name, inputs)
            columns = {k: to_json(value) for k, value in outputs.items()}
            rows = [
                dict(zip(columns, row, strict=True))
                for row in zip(*columns.values(), strict=True)
            ]
            return ({"predictions": rows},)
        outputs = self.runner.run(name, body["inputs"])
        outputs = {key: to_json(value) for key, value in outputs.items()}
        if len(outputs) == 1:  # as TensorFlow Serving does
            (outputs,) = outputs.values()
        return ({"outputs": outputs},)

    def predict_v2(self, body):
        """JSON, and bytes behind it for tensors that tell their size."""
        inputs, behind = {}, []
        for one in body["inputs"]:
            if "data" in one:
                values = [
                    x.encode() if isinstance(x, str) else x for x in one["data"]
                ]
                array = np.array(values, KSERVE[one["datatype"]])
            else:
                size = one["parameters"]["binary_data_size"]
                content, self.behind = self.behind[:size], self.behind[size:]
                array = of_bytes(content, KSERVE[one["datatype"]])
            inputs[one["name"]] = array.reshape(one["shape"])
        parameters = body["parameters"]
        found = self.runner.run(parameters["signature_name"], inputs)
        types = {dtype: kserve for kserve, dtype in KSERVE.items()}
        outputs = []
        for key, value in found.items():
            told = {"name": key, "shape": list(value.shape)}
            told["datatype"] = types[value.dtype.name]
            if parameters.get("binary_data_output"):
                behind.append(to_bytes(value))
                told["parameters"] = {"binary_data_size": len(behind[-1])}
            else:
                told["data"] = to_json(value.ravel())
            outputs.append(told)
        return {"outputs": outputs}, b"".join(behind)

    def answer(self, status, body, behind=b""):
        content = json.dumps(body).encode()
        self.send_response(status)
        if behind:
            self.send_header(HEAD_LENGTH, str(len(content)))
        self.send_header("Content-Length", str(len(content + behind)))
        self.end_headers()
        self.wfile.write(content + behind)

    def log_message(self, *_):
        pass


def serve_rest(runner, port):
    Handler.runner = runner
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("ready", flush=True)
    server.serve_forever()


def serve_grpc(runner, port):
    import grpc
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            spec = request.model_spec
            try:
                inputs = {
                    key: np.array(tf.make_ndarray(value))
                    for key, value in request.inputs.items()
                }
                outputs = runner.run(spec.signature_name, inputs)
            except Exception as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            answer = predict_pb2.PredictResponse()
            answer.model_spec.CopyFrom(spec)
            for key, value in outputs.items():
                answer.outputs[key].CopyFrom(tf.make_tensor_proto(value))
            return answer

    server = grpc.server(
        ThreadPoolExecutor(4 if runner.queue is None else 32),
        options=[
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Service(), server
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    kind, folder, port, *most_requests = sys.argv[1:]
    serve = {"rest": serve_rest, "grpc": serve_grpc}[kind]
    serve(Runner(folder, *map(int, most_requests)), int(port))
