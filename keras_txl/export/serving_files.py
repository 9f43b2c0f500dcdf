"""Files of TensorFlow Serving beside a SavedModel, and what travels.

Axes: B rows, T segment, V vocabulary.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_txl.whole_files import write_whole

WARMUP = "assets.extra/tf_serving_warmup_requests"
MODELS_NAME = "models.config"
BATCHING_NAME = "batching.config"
GRPC_LIMIT = 4 * 2**20
"""Bytes of an answer that a gRPC client takes unless told otherwise."""

BYTES = {"bool": 1, "int8": 1, "bfloat16": 2, "float32": 4, "int32": 4}

_BATCHING = """\
# For tensorflow_model_server --enable_batching --batching_parameters_file=...
# Rows of waiting requests run together. Shorter ones are padded, which the
# lengths in every request make harmless; answers are as wide as the longest.
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
pad_variable_length_inputs: true
"""

_WARMUP_VALUES: dict[str, Any] = {
    "max_new_tokens": 2,
    "token_length": 1,
    "top_p": 1.0,
}
"""What is not 0 in a request of the warm-up."""


def write_warmup(
    folder: str, signatures: Mapping[str, Any], prompt: str
) -> None:
    """Write one request for each signature, which a server runs at its start.

    Args:
        folder: of the SavedModel.
        signatures: shapes and dtypes, as in a manifest. `session_step` is
            left out: it would leave something behind.
        prompt: a text that the tokenizer can read.
    """
    import tensorflow as tf

    path = Path(folder, WARMUP)
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for name, signature in signatures.items():
            if name != "session_step":
                inputs = signature["inputs"]
                file.write(_prediction_log(name, inputs, prompt))


def _prediction_log(name: str, inputs: Mapping[str, Any], prompt: str) -> bytes:
    """A `PredictionLog` of TensorFlow Serving, by the numbers of its fields."""
    import tensorflow as tf

    request = _field(1, _field(3, name.encode()))  # model_spec
    for key, spec in inputs.items():
        value = prompt if key == "prompts" else _WARMUP_VALUES.get(key, 0)
        shape = [1 if size is None else size for size in spec["shape"]]
        tensor = tf.make_tensor_proto(value, spec["dtype"], shape)
        entry = _field(1, key.encode()) + _field(2, tensor.SerializeToString())
        request += _field(2, entry)
    return _field(6, _field(1, request))  # predict_log, its request


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def write_server_files(path: Path, *others: Path) -> None:
    """Write `models.config` and `batching.config`, unless they are there.

    Args:
        path: folder of the versions of a model, where the files go.
        *others: folders of other models of the same server.
    """
    configs = "".join(
        f'  config {{\n    name: "{model.name}"\n    base_path: "{model}"\n'
        '    model_platform: "tensorflow"\n  }\n'
        for model in (path.absolute(), *(other.absolute() for other in others))
    )
    for name, text in (
        (MODELS_NAME, f"model_config_list {{\n{configs}}}\n"),
        (BATCHING_NAME, _BATCHING),
    ):
        if not (path / name).exists():
            write_whole(path / name, text)


def message_bytes(
    signature: Mapping[str, Any], rows: int = 1, segment_length: int = 1
) -> tuple[int, int]:
    """Bytes of a request and of its answer, the few of names left out.

    Args:
        signature: shapes and dtypes of a signature, from a manifest.
        rows: int B.
        segment_length: int T, tokens of a row.

    Returns:
        The bytes of all inputs and of all outputs.
    """

    def size(tensors: Mapping[str, Any]) -> int:
        free = (rows, segment_length)
        return sum(
            BYTES[spec["dtype"]]
            * math.prod(
                free[axis] if number is None else number
                for axis, number in enumerate(spec["shape"])
            )
            for spec in tensors.values()
        )

    return size(signature["inputs"]), size(signature["outputs"])
