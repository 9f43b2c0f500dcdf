"""The check's sessions, through a client of a server."""

import numpy as np

from keras_txl.export.check import SESSIONS
from keras_txl.export.check import replay
from keras_txl.export.serving import StreamSession


def rows_of(inputs, name):
    """Rows of a segment, each cut at its own length."""
    return [
        row[:length]
        for row, length in zip(
            inputs[name], inputs["token_length"], strict=True
        )
    ]


def wide(values, inputs):
    """What a client gives, as wide as the segment of the check."""
    room = inputs["token_ids"].shape[1] - values.shape[1]
    return np.pad(values, [(0, 0), (0, room)] + [(0, 0)] * (values.ndim - 2))


def read_sessions(
    expected,
    server,
    between=None,
    sessions=SESSIONS,
    scores=True,
    **options,
):
    """Interleave all sessions of the check; `score` takes turns with `step`.

    `between(index)` runs before each round of segments.
    """
    rounds = []

    def start(rows):
        return StreamSession(server, rows, **options)

    def step(inputs, session):
        index = inputs["token_ids"].shape[1]
        if len(rounds) % len(sessions) == 0 and between is not None:
            between(len(rounds) // len(sessions))
        rounds.append(index)
        ids = rows_of(inputs, "token_ids")
        if scores and len(rounds) % 3 == 0:
            losses = session.score(ids, rows_of(inputs, "targets"))
            outputs = {"token_losses": wide(losses, inputs)}
        else:
            outputs = {"logits": wide(session.step(ids), inputs)}
        length = session.memory["memory_length"]
        outputs["memory_length"] = length
        if "memory_scale" not in session.memory:
            outputs["memory"] = session.memory["memory"]
        return outputs, session

    return replay(expected, start, step, 1e-5, "server", sessions)
