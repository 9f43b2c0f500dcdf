"""The proof that a saved model has the same loss in a new process."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SAME_LOSS = 1e-5  # relative; a new process may sum in another order


def prove_reload(
    options: argparse.Namespace,
    model: Path,
    documents: Sequence[bytes],
    expected: float,
) -> str:
    """Evaluate the saved model in a new process.

    Args:
        options: parsed, of `quickstart`.
        model: folder of the saved model.
        documents: held-out texts.
        expected: their loss in nats, with one segment of memory.

    Returns:
        A sentence that tells both losses.

    Raises:
        RuntimeError: if that fails or gives another loss.
    """
    from keras_txl.cli.progress import say

    say("Loading the model in a new process.")
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, document in enumerate(documents):
            paths.append(Path(folder, f"{number:06d}"))
            paths[-1].write_bytes(document)
        found = _evaluate_in_new_process(options, model, paths)
    difference = abs(found - expected) / max(abs(expected), 1e-12)
    told = (
        f"{expected:.3f} nats here, {found:.3f} nats after loading in a new "
        "process, on the held-out text with memory 1x"
    )
    if difference > SAME_LOSS:
        raise RuntimeError(
            f"The saved model must have the same loss. Received: {told}. "
            "Please report this with the versions of keras and keras_txl."
        )
    return f"The saved model has the same loss: {told}."


def _evaluate_in_new_process(
    options: argparse.Namespace, model: Path, paths: Sequence[Path]
) -> float:
    import keras

    import keras_txl

    source = str(Path(keras_txl.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    command = [
        *(sys.executable, "-m", "keras_txl.cli.main", "evaluate", str(model)),
        *map(str, paths),
        *("--memory-length", str(options.segment_length)),
        *("--segment-length", str(options.segment_length)),
        *("--batch-size", str(options.batch_size), "--json"),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "KERAS_BACKEND": keras.backend.backend(),
            "PYTHONPATH": os.pathsep.join(filter(None, (source, inherited))),
        },
    )
    if done.returncode:
        raise RuntimeError(
            "The saved model must load in a new process. Received: exit code "
            f"{done.returncode} and {done.stderr.strip()[-2000:]}"
        )
    return float(json.loads(done.stdout)["results"][0]["nats"])
