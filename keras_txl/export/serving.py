"""Clients of exported models: sessions that carry their memory.

The server keeps nothing of a session. Its memory is here, and it is replaced
only by a whole answer: a request that is sent again, to this or another
server, reads the same segment into the same memory. No segment is applied
twice and none is lost, whenever a server dies.

Axes: B rows, T segment, V vocabulary.
"""

import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.export.serving_protocols import KServeV1
from keras_txl.export.serving_protocols import KServeV2
from keras_txl.export.serving_protocols import LocalSavedModel
from keras_txl.export.serving_protocols import RequestError
from keras_txl.export.serving_protocols import ServerUnavailableError
from keras_txl.export.serving_protocols import TensorFlowServingGrpc
from keras_txl.export.serving_protocols import TensorFlowServingRest

__all__ = [
    "KServeV1",
    "KServeV2",
    "LocalSavedModel",
    "RequestError",
    "ServerUnavailableError",
    "StreamSession",
    "TensorFlowServingGrpc",
    "TensorFlowServingRest",
    "generate",
    "generate_text",
]

Array = np.ndarray[Any, Any]

SETTINGS = {
    "max_new_tokens": "int32",
    "temperature": "float32",
    "top_k": "int32",
    "top_p": "float32",
    "seed": "int32",
}


class Server(Protocol):
    """Anything that runs a signature of an exported model."""

    def predict(
        self, signature: str, inputs: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a signature; raises as `TensorFlowServingRest.predict`."""


class StreamSession:
    """Streams whose memory travels with every request.

    `memory` is a dict of arrays. Store it, and give it to a session of
    another process to go on there.

    Args:
        server: one of the clients of this module.
        rows: int B. Streams that are read side by side.
        memory: of an earlier session. `None`: new streams.
        attempts: int. How often a request is sent before it fails.
        wait: seconds before the second attempt, doubled for each one more.
    """

    def __init__(
        self,
        server: Server,
        rows: int = 1,
        memory: Mapping[str, Array] | None = None,
        attempts: int = 4,
        wait: float = 0.2,
    ) -> None:
        self.server = server
        self.rows = check_integer("rows", rows, 1)
        self.attempts = check_integer("attempts", attempts, 1)
        self.wait = wait
        self.memory: dict[str, Array] = {}
        if memory is None:
            ones = np.ones([rows], "int32")
            self.memory = self._send("initial_memory", {"rows": ones})
        else:
            self.memory = dict(memory)
        held = self.memory["memory_length"].shape[0]
        if held != rows:
            raise ValueError(
                "`memory` belongs to another number of rows. Received: memory "
                f"of {held} rows, rows={rows}. Pass rows={held}."
            )
        # JSON does not know int8 from other whole numbers.
        if "memory_scale" in self.memory:
            self.memory["memory"] = self.memory["memory"].astype("int8")

    def step(self, token_ids: Sequence[Any]) -> Array:
        """Read a segment.

        Args:
            token_ids: int ids of each row, of equal or of unequal lengths.

        Returns:
            float32 logits `(rows, longest, vocabulary_size)`, zeros behind
            the end of a row.
        """
        return self._advance("step", _segment(token_ids), "logits")

    def score(self, token_ids: Sequence[Any], targets: Sequence[Any]) -> Array:
        """Read a segment and compare it with what follows each token.

        Args:
            token_ids: int ids of each row.
            targets: the token behind each of them.

        Returns:
            float32 losses `(rows, longest)` in nats, 0 behind the end of a
            row.
        """
        segment = _segment(token_ids)
        segment["targets"] = _segment(targets)["token_ids"]
        return self._advance("score", segment, "token_losses")

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Let rows forget what they have read.

        Args:
            rows: numbers of the rows. `None`: all.
        """
        chosen = np.arange(self.rows) if rows is None else np.asarray(rows)
        length = self.memory["memory_length"].copy()
        length[chosen] = 0
        self.memory["memory_length"] = length

    def _advance(
        self, signature: str, segment: dict[str, Array], result: str
    ) -> Array:
        longest = segment["token_ids"].shape[1]
        outputs = self._send(signature, {**segment, **self.memory})
        self.memory = {
            name: outputs[f"new_{name}"].astype(value.dtype)
            for name, value in self.memory.items()
        }
        # As wide as the longest request of a batch on the server.
        return outputs[result][:, :longest]

    def _send(self, name: str, inputs: dict[str, Array]) -> dict[str, Array]:
        return send(self.server, name, inputs, self.attempts, self.wait)


def send(
    server: Server,
    signature: str,
    inputs: Mapping[str, Array],
    attempts: int = 4,
    wait: float = 0.2,
) -> dict[str, Array]:
    """Run a signature, again if the server does not answer.

    That is right for all signatures but `session_step`, which changes the
    server: every other request gives the same answer whenever it is sent.

    Args:
        server: a client.
        signature: its name.
        inputs: arrays by name.
        attempts: int. How often the request is sent before it fails.
        wait: seconds before the second attempt, doubled for each one more.

    Returns:
        Arrays by name.

    Raises:
        RequestError: if the server refuses the request.
        ServerUnavailableError: if it does not answer.
    """
    for attempt in range(attempts):
        try:
            return server.predict(signature, inputs)
        except ServerUnavailableError:
            if attempt + 1 == attempts:
                raise
            time.sleep(wait * 2**attempt)
    raise ValueError(f"`attempts` must be at least 1. Received: {attempts}.")


def generate(
    server: Server, prompts: Sequence[Any], **settings: Any
) -> list[list[int]]:
    """Continue rows of ids on the server.

    Args:
        server: a client.
        prompts: ids of each row.
        **settings: `max_new_tokens` (16), `temperature` (1), `top_k` (0: all),
            `top_p` (1: all) and `seed` (0), each one number or one for each
            row.

    Returns:
        For each row its prompt and what continues it.
    """
    inputs = {**_segment(prompts), **_settings(len(prompts), settings)}
    outputs = send(server, "generate", inputs)
    rows = zip(outputs["token_ids"], outputs["token_length"], strict=True)
    return [row[:length].tolist() for row, length in rows]


def generate_text(
    server: Server, prompts: Sequence[str], **settings: Any
) -> list[str]:
    """Continue texts on the server.

    Args:
        server: a client.
        prompts: texts.
        **settings: as of `generate`.

    Returns:
        Each prompt and what continues it.
    """
    inputs = {
        "prompts": np.array([p.encode() for p in prompts], object),
        **_settings(len(prompts), settings),
    }
    (texts,) = send(server, "generate_text", inputs).values()
    return [
        text.decode() if isinstance(text, bytes) else str(text)
        for text in texts
    ]


def _settings(rows: int, given: Mapping[str, Any]) -> dict[str, Array]:
    values = {"max_new_tokens": 16, "temperature": 1.0, "top_p": 1.0}
    unknown = sorted(set(given) - set(SETTINGS))
    if unknown:
        raise TypeError(
            f"Settings are {', '.join(SETTINGS)}. Received: "
            f"{', '.join(unknown)}."
        )
    values.update(given)
    return {
        name: np.broadcast_to(np.array(values.get(name, 0), dtype), [rows])
        for name, dtype in SETTINGS.items()
    }


def _segment(rows: Sequence[Any]) -> dict[str, Array]:
    """Rows of unequal lengths as one array, zeros behind their ends."""
    arrays = [np.asarray(row, "int32").ravel() for row in rows]
    longest = max((len(row) for row in arrays), default=0)
    token_ids = np.zeros([len(arrays), longest], "int32")
    for place, row in zip(token_ids, arrays, strict=True):
        place[: len(row)] = row
    length = np.array([len(row) for row in arrays], "int32")
    return {"token_ids": token_ids, "token_length": length}
