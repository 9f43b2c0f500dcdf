"""Many streams at once, each of its own tokens and segment lengths."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np


def streams_of(count):
    """For each stream three segments of one length, as rows."""
    return [
        np.random.default_rng(number).integers(256, size=[3, 1 + number % 7])
        for number in range(count)
    ]


def read_while_the_server_dies(sessions, streams, process):
    """Logits of the last segments; the server is killed after the first."""

    def step(session, stream, index):
        return session.step([stream[index]])

    with ThreadPoolExecutor(16) as pool:
        for index in range(3):
            if index == 1:
                process.kill()
                process.start_later()
            at = [index] * len(streams)
            logits = list(pool.map(step, sessions, streams, at))
    return logits


def assert_streams_equal_keras(lm, streams, logits, error=1e-5):
    """`logits` of the last segments are those of each stream, read alone."""
    for number in range(0, len(streams), 7):
        memory = lm.initial_memory(1)
        for segment in streams[number]:
            wanted, memory = lm.step(segment[None], memory)
        np.testing.assert_allclose(
            logits[number], wanted, rtol=error, atol=error
        )
    ends = {tuple(np.round(values[0, -1], 3)) for values in logits}
    assert len(ends) == len(streams)
