"""Calls a function in a fresh Python process.

An exported file is checked where nothing of the exporter is loaded, and a
model of another backend is rebuilt where Keras runs on TensorFlow.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_txl.export.errors import ExportMismatchError
from keras_txl.whole_files import write_whole

LINES_OF_LOG = 15
"""Shown when a process dies without a message."""


def call_in_fresh_process(
    function: str,
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Call a function in a new Python process and return what it returns.

    Args:
        function: `"module:name"`.
        arguments: keyword arguments, values that JSON can hold.
        environment: variables to set beside those of this process.

    Returns:
        What the function returned, through JSON.

    Raises:
        ExportMismatchError: if the function raised it.
        RuntimeError: with the message of any other error.
    """
    source = str(Path(__file__).resolve().parents[2])
    paths = [source, os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory(prefix="keras_txl_") as folder:
        call, answer = Path(folder, "call.json"), Path(folder, "answer.json")
        call.write_text(json.dumps([function, dict(arguments)]))
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(call), str(answer)],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if not answer.is_file():
            log = "\n".join(done.stdout.splitlines()[-LINES_OF_LOG:])
            raise RuntimeError(
                f"A process that ran {function} must answer. Received: exit "
                f"status {done.returncode} and this log:\n{log}"
            )
        told = json.loads(answer.read_text())
    if "mismatch" in told:
        raise ExportMismatchError(*told["mismatch"])
    if "error" in told:
        raise RuntimeError(told["error"])
    return told["result"]


def main(call: str, answer: str) -> None:
    """What the new process does: read a call, write its answer."""
    function, arguments = json.loads(Path(call).read_text())
    module, _, name = function.partition(":")
    told: dict[str, Any]
    try:
        target = getattr(importlib.import_module(module), name)
        told = {"result": target(**arguments)}
    except ExportMismatchError as error:
        told = {"mismatch": error.values}
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    write_whole(answer, json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
