"""Make a model repository for Triton Inference Server.

    python export/serving/triton_repository.py served/my_model/1 repository
    tritonserver --model-repository=repository

Triton's Python backend runs the SavedModel through `triton_model.py`, which is
copied into the repository; `tensorflow` must be importable there. There are two
models:

- `NAME` is the signature `step`. Memory is the client's, so that a server that
  dies loses nothing: `StreamSession(KServeV2("http://localhost:8000", NAME))`.
- `NAME_session` keeps memory by the sequence id of a request
  (`sequence_batching`); it takes `token_ids` alone. Memory is gone with the
  server, and what was lost must not be sent again. A sequence that never ends
  keeps its memory until then.

Requests that wait run together. Triton joins those of sequences. Those with
memory of the client it cannot, for where it joins requests it knows no tensors
that have a number for each row and nothing else, such as `token_length`; so
`triton_model.py` lets them wait and answers them as they are done, which needs
a Triton of July 2024 or newer.

With `--onnx FOLDER` (of `keras-txl export onnx ... --flavour hidden`) a third
one, `NAME_onnx`, is for Triton's ONNX backend, whose implicit state carries
memory from request to request without any Python: a request has `token_ids`
and `token_length` of one row. Triton itself has read that configuration and
planned sequences by it; it was not executed where the others were tested, for
want of that backend.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import keras_txl

TYPES = {
    "float32": "TYPE_FP32",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "int8": "TYPE_INT8",
}

SEGMENT = ("token_ids", "token_length")

SEQUENCE = """\
sequence_batching {
  max_sequence_idle_microseconds: 600000000
  oldest { max_candidate_sequences: 1024 }
BODY}
"""

# Of the Python backend alone: inputs of the ONNX model are those of `hidden`.
CONTROLS = """\
  control_input [
    { name: "START" control [
      { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [
      { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] },
    { name: "CORRID" control [
      { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } ] }
  ]
"""


def tensors(kind: str, specs: dict[str, Any], rows: list[int]) -> str:
    """Inputs or outputs of a configuration.

    `rows` stands for the first axis; where a model has a `max_batch_size` it
    is empty, and requests may be of unequal lengths.
    """
    ragged = "" if rows or kind == "output" else " allow_ragged_batch: true"
    told = []
    for name, spec in specs.items():
        dims = [s if isinstance(s, int) else -1 for s in spec["shape"]]
        told.append(
            f'  {{ name: "{name}" data_type: {TYPES[spec["dtype"]]} '
            f"dims: {[*rows, *dims[1:]]}{ragged} }}"
        )
    return f"{kind} [\n" + ",\n".join(told) + "\n]\n"


def states(inputs: dict[str, Any]) -> str:
    """Memory as implicit state, which begins with zeros."""
    told = []
    for name, spec in inputs.items():
        kind = TYPES[spec["dtype"]]
        dims = [1, *spec["shape"][1:]]
        told.append(
            f'    {{ input_name: "{name}" output_name: "new_{name}"\n'
            f"      data_type: {kind} dims: {dims}\n"
            f'      initial_state: {{ name: "{name}" data_type: {kind} '
            f"dims: {dims} zero_data: true }} }}"
        )
    return "  state [\n" + ",\n".join(told) + "\n  ]\n"


def write_model(folder: Path, config: str, *files: Path) -> None:
    """Write a model: its configuration, its files in version 1."""
    version = folder / "1"
    version.mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    for file in files:
        shutil.copy(file, version / file.name)


def write_python_model(
    place: Path, folder: Path, signature: str, body: str, most: int
) -> None:
    """Write a model of the Python backend; `most` requests run together."""
    parameters = {
        "folder": str(folder.absolute()),
        "signature": signature,
        "most_requests": str(most),
        # The backend's Python does not read PYTHONPATH.
        "python_path": ":".join(path for path in sys.path if path),
    }
    told = "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in parameters.items()
    )
    # Requests with memory of the client have any number of rows.
    most_rows = most if signature == "session" else 0
    head = f'backend: "python"\nmax_batch_size: {most_rows}\n'
    here = Path(__file__).parent
    write_model(place, head + body + told, here / "joined_requests.py")
    shutil.copy(here / "triton_model.py", place / "1" / "model.py")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="version folder")
    parser.add_argument("repository", type=Path, help="a new folder")
    parser.add_argument("--name", help="of the model (default: as exported)")
    parser.add_argument("--onnx", type=Path, help="folder of ONNX, hidden")
    parser.add_argument(
        "--most-requests",
        type=int,
        default=64,
        help="that run together; 1 runs each alone (default: 64)",
    )
    options = parser.parse_args()
    if options.most_requests < 1:
        parser.error("--most-requests must be at least 1")
    return options


def main() -> None:
    """Write the repository."""
    options = parse_arguments()
    name = options.name or options.folder.absolute().parent.name
    step = keras_txl.export.read_manifest(options.folder)["signatures"]["step"]
    ids = {"token_ids": step["inputs"]["token_ids"]}
    logits = {"logits": step["outputs"]["logits"]}

    body = tensors("input", step["inputs"], [-1])
    body += tensors("output", step["outputs"], [-1])
    place = options.repository / name
    write_python_model(
        place, options.folder, "step", body, options.most_requests
    )

    body = tensors("input", ids, []) + tensors("output", logits, [])
    body += SEQUENCE.replace("BODY", CONTROLS)
    place = options.repository / f"{name}_session"
    write_python_model(
        place, options.folder, "session", body, options.most_requests
    )

    if options.onnx:
        told = keras_txl.export.read_manifest(options.onnx)
        step = told["signatures"]["step"]
        segment = {name: step["inputs"][name] for name in SEGMENT}
        memory = {
            key: spec
            for key, spec in step["inputs"].items()
            if key not in SEGMENT
        }
        logits = {"logits": step["outputs"]["logits"]}
        config = 'backend: "onnxruntime"\nmax_batch_size: 0\n'
        config += tensors("input", segment, [1])
        config += tensors("output", logits, [1])
        config += SEQUENCE.replace("BODY", states(memory))
        place = options.repository / f"{name}_onnx"
        write_model(place, config, *sorted(options.onnx.glob("model.onnx*")))
    print(f"wrote {options.repository}")


if __name__ == "__main__":
    main()
