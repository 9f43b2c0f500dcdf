"""Runs an exported ONNX model segment by segment, memory fed back.

NumPy and ONNX Runtime alone, so that a check sees what an edge device sees.

Axes: B rows, T segment, V vocabulary, M memory slots, N heads, H head width.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.export.manifest import verify_manifest

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Step = tuple[Arrays, Any]
"""Outputs of a segment by the names of `check.OUTPUTS`, and the state."""


def open_session(path: str | os.PathLike[str], num_threads: int = 0) -> Any:
    """An `onnxruntime.InferenceSession` on the CPU.

    Args:
        path: of the `.onnx` file.
        num_threads: int. 0: as many as there are cores.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    return onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )


class HiddenRunner:
    """Memory as hidden states.

    Args:
        path: folder of the exported model.
        manifest: of that folder.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.session = open_session(path / "model.onnx")
        model = manifest["model"]
        self.memory_shape = (
            model["num_layers"],
            model["memory_length"],
            model["hidden_dim"],
        )

    def start(self, rows: int) -> Any:
        """The state of `rows` streams that have read nothing."""
        return {
            "memory": np.zeros((rows, *self.memory_shape), "float32"),
            "memory_length": np.zeros(rows, "int32"),
        }

    def step(self, inputs: Arrays, state: Any) -> Step:
        """Read a segment: int32 `token_ids (B, T)`, `token_length (B,)`."""
        logits, memory, length = self.session.run(
            ["logits", "new_memory", "new_memory_length"],
            {
                "token_ids": inputs["token_ids"],
                "token_length": inputs["token_length"],
                **state,
            },
        )
        state = {"memory": memory, "memory_length": length}
        return {"logits": logits, **state}, state


def _names_of_rows(num_layers: int) -> list[str]:
    return [
        f"{index}.{part}"
        for index in range(num_layers)
        for part in ("key", "value")
    ]


class KeyValueRunner:
    """Memory as keys and values of the past.

    One stream keeps all of it, as ONNX Runtime GenAI does; of several streams
    it is cut to the newest M tokens: the logits are the same.

    Args:
        path: folder of the exported model.
        manifest: of that folder.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.session = open_session(path / "model.onnx")
        model = manifest["model"]
        self.memory_length = model["memory_length"]
        self.slot_shape = (model["num_heads"], 0, model["head_dim"])
        self.names = _names_of_rows(model["num_layers"])

    def start(self, rows: int) -> Any:
        """The state of `rows` streams that have read nothing."""
        return [np.zeros((rows, *self.slot_shape), "float32")] * len(self.names)

    def step(self, inputs: Arrays, state: Any) -> Step:
        """Read a segment: int `token_ids (B, T)`, all of them tokens."""
        ids = inputs["token_ids"].astype("int64")
        past = [f"past_key_values.{name}" for name in self.names]
        total = state[0].shape[2] + ids.shape[1]
        logits, *present = self.session.run(
            ["logits", *(f"present.{name}" for name in self.names)],
            {
                "input_ids": ids,
                "attention_mask": np.ones((len(ids), total), "int64"),
                **dict(zip(past, state, strict=True)),
            },
        )
        if len(ids) > 1:
            begin = max(total - self.memory_length, 0)
            present = [rows[:, :, begin:] for rows in present]
        return {"logits": logits}, present


class RingRunner:
    """Memory as a ring of keys and values; token by token.

    The streams start at different positions, so that their rings turn at
    different times within a short text.

    Args:
        path: folder of the exported model.
        manifest: of that folder.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.session = open_session(path / "model.onnx")
        model = manifest["model"]
        self.memory_length = model["memory_length"]
        self.slots = (model["num_heads"], self.memory_length, model["head_dim"])
        self.names = _names_of_rows(model["num_layers"])

    def start(self, rows: int) -> Any:
        """The state of `rows` streams that have read nothing."""
        begin = max(self.memory_length - 20, 0)
        return {
            "position": begin + 7 * np.arange(rows, dtype="int64"),
            "length": np.zeros(rows, "int64"),
            # What stands in slots that hold nothing must not matter.
            "ring": [
                np.full((rows, *self.slots), 3.0, "float32") for _ in self.names
            ],
        }

    def step(self, inputs: Arrays, state: Any) -> Step:
        """Read a segment: int `token_ids (B, T)`, all of them tokens."""
        columns = inputs["token_ids"].astype("int64").T[:, :, None]
        logits = [self._feed(ids, state) for ids in columns]
        return {"logits": np.concatenate(logits, axis=1)}, state

    def _feed(self, ids: Array, state: Any) -> Array:
        position, length = state["position"], state["length"]
        ring = zip(self.names, state["ring"], strict=True)
        logits, *new = self.session.run(
            ["logits", *(f"new.{name}" for name in self.names)],
            {
                "input_ids": ids,
                "position": position,
                "length": length,
                **{f"ring.{name}": rows for name, rows in ring},
            },
        )
        rows = np.arange(len(ids))
        for slots, row in zip(state["ring"], new, strict=True):
            slots[rows, :, position % self.memory_length] = row[:, :, 0]
        state["position"] = position + 1
        state["length"] = np.minimum(length + 1, self.memory_length)
        return np.asarray(logits)


RUNNERS: dict[str, Any] = {
    "hidden": HiddenRunner,
    "kv": KeyValueRunner,
    "kv_ring": RingRunner,
}


def open_onnx(path: str | os.PathLike[str]) -> Any:
    """Open an exported ONNX model to run it segment by segment.

    Args:
        path: folder that `export_onnx` wrote.

    Returns:
        An object with `start(rows)`, the state of streams that have read
        nothing, and `step(inputs, state)`, which takes int32 arrays
        `token_ids (B, T)` and `token_length (B,)` and returns a dict with
        `logits` and the state after the segment. A ring is written in place.

    Raises:
        FileNotFoundError: if there is no manifest.
        ValueError: if a file is not whole, or is no ONNX model.
    """
    manifest = verify_manifest(path)
    if manifest["target"] != "onnx":
        raise ValueError(
            "The folder must hold an ONNX model. Received: "
            f"{os.fspath(path)!r} of target {manifest['target']!r}. Export "
            "with `export_onnx`."
        )
    return RUNNERS[manifest["flavour"]](Path(path), manifest)
