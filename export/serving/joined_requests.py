"""Several requests as one call, for `kserve_server.py` and `triton_model.py`.

Every input and output of an exported signature has a row for each stream, and
rows do not see each other. So the rows of requests that wait can run together:
one call of 32 rows costs far less than 32 calls.
"""

import queue
import threading
from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

Arrays = dict[str, Any]

SEGMENTS = ("token_ids", "targets")
BY_TOKEN = ("logits", "token_losses")


class RequestQueue:
    """Requests that arrive while others run wait, and then run together.

    Args:
        run: `run(name, arrays)` runs a signature and gives arrays by name.
        refusals: what `run` raises for bad inputs.
        most_requests: int. How many may run together.
    """

    def __init__(
        self,
        run: Callable[[str, Arrays], Arrays],
        refusals: tuple[type[Exception], ...],
        most_requests: int,
    ) -> None:
        self.run = run
        self.refusals = refusals
        self.most_requests = most_requests
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, name: str, inputs: Arrays) -> Future[Arrays]:
        """Let a request wait; the outputs, or the error, come later."""
        answer: Future[Arrays] = Future()
        self.requests.put((name, inputs, answer))
        return answer

    def _work(self) -> None:
        """Answer whoever waits, those of one signature together."""
        left: list[Any] = []
        while True:
            waiting = left or [self.requests.get()]
            while not self.requests.empty():
                waiting.append(self.requests.get())
            name = waiting[0][0]
            chosen, left = [], []
            for one in waiting:
                fits = one[0] == name and len(chosen) < self.most_requests
                (chosen if fits else left).append(one)
            self._answer(name, chosen)

    def _answer(self, name: str, chosen: list[Any]) -> None:
        found: Sequence[Any]
        try:
            found = run_joined(
                lambda arrays: self.run(name, arrays),
                [inputs for _, inputs, _ in chosen],
                self.refusals,
            )
        except Exception as error:  # the thread must live on
            found = [error] * len(chosen)
        for (_, _, answer), outputs in zip(chosen, found, strict=True):
            if not answer.set_running_or_notify_cancel():
                continue  # the client has gone
            if isinstance(outputs, Exception):
                answer.set_exception(outputs)
            else:
                answer.set_result(outputs)


def run_joined(
    run: Callable[[Arrays], Arrays],
    requests: Sequence[Arrays],
    refusals: tuple[type[Exception], ...],
) -> list[Arrays | Exception]:
    """The answer to each request, or why it was refused.

    Args:
        run: a signature; takes arrays and gives arrays, by name.
        requests: inputs of each, with the same names.
        refusals: what `run` raises for bad inputs. Nobody is refused for
            what another has sent: then each runs alone.

    Returns:
        For each request its outputs; those by token as wide as its own
        segment. `token_ids` of `generate` are as wide as the longest of all:
        `token_length` says where they end.
    """
    if len(requests) > 1 and not all(map(_agrees, requests)):
        return [run_joined(run, [one], refusals)[0] for one in requests]
    try:
        joined = run(_rows_of_all(requests))
    except refusals as error:
        if len(requests) == 1:
            return [error]
        return [run_joined(run, [one], refusals)[0] for one in requests]
    counts = [len(next(iter(one.values()))) for one in requests]
    parts = {
        name: np.split(value, np.cumsum(counts)[:-1])
        for name, value in joined.items()
    }
    answers: list[Arrays | Exception] = []
    for index, request in enumerate(requests):
        answer = {name: rows[index] for name, rows in parts.items()}
        for name in BY_TOKEN:
            if name in answer:
                width = request["token_ids"].shape[1]
                answer[name] = answer[name][:, :width]
        answers.append(answer)
    return answers


def _agrees(request: Arrays) -> bool:
    """Whether all inputs have one number of rows, and segments one shape.

    Else rows of different requests would meet: it runs, and fails, alone.
    """
    shapes = {name: np.shape(value) for name, value in request.items()}
    segments = {shapes[name] for name in SEGMENTS if name in shapes}
    return len({shape[:1] for shape in shapes.values()}) == 1 and (
        [len(shape) for shape in segments] in ([], [2])
    )


def _rows_of_all(requests: Sequence[Arrays]) -> Arrays:
    """Inputs one below the other, segments with zeros behind their ends."""
    if len(requests) == 1:
        return requests[0]
    joined = {}
    for name in requests[0]:
        parts = [request[name] for request in requests]
        if name in SEGMENTS:
            longest = max(part.shape[1] for part in parts)
            parts = [
                np.pad(part, [(0, 0), (0, longest - part.shape[1])])
                for part in parts
            ]
        joined[name] = np.concatenate(parts)
    return joined
