"""Streams at given positions, and what a token costs there, turn by turn."""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from decoding_bound import Bound

import keras_txl

SAVE_SECONDS = 60


class Journey:
    """Decodes from position 0 and keeps memories on the way.

    Each position is reached by decoding, greedy, from the memory of an earlier
    one, the first from nothing. An interrupted run goes on from the last
    memory in the folder.

    Args:
        lm: the model. Memories of other weights are refused.
        params: of the cell.
        folder: of the memories. `None`: one for this run.
    """

    def __init__(
        self, lm: Any, params: dict[str, Any], folder: Path | None
    ) -> None:
        self.lm, self.params = lm, params
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory()
            folder = Path(self._temporary.name)
        sizes = [f"{key}={value}" for key, value in params.items()]
        self.folder = folder / ",".join(sizes)
        self.folder.mkdir(parents=True, exist_ok=True)

    def stream_at(self, mark: int) -> tuple[Any, int]:
        """A stream that has decoded `mark` tokens, or a few more.

        Returns:
            The stream, and its position.
        """
        saved = sorted(int(path.stem) for path in self.folder.glob("*.npz"))
        tokens = self.params["tokens_per_call"]
        begin = max((at for at in saved if at < mark + tokens), default=0)
        memory, prompt = None, np.zeros((self.params["batch_size"], 1), "int32")
        if begin:
            path = self.folder / f"{begin}.npz"
            memory = keras_txl.generation.load_memory(path, self.lm)
            prompt = prompt[:, :0]
        stream = self.lm.generate_stream(
            prompt,
            memory=memory,
            sampler="greedy",
            stop_token_ids=None,
            tokens_per_call=tokens,
        )
        position, passed = begin, None
        start = last = time.monotonic()
        while position < mark:
            next(stream)
            position += tokens
            now = time.monotonic()
            if now - last > SAVE_SECONDS or position >= mark:
                self._save(position, stream)
                if passed is not None:
                    (self.folder / f"{passed}.npz").unlink()
                passed, last = position, now
                pace = (now - start) / (position - begin)
                tell(
                    f"  position {position:,} of {mark:,}, "
                    f"{pace * 1e3:.2f} ms a token, "
                    f"{pace * max(mark - position, 0) / 60:.1f} min to go"
                )
        return stream, position

    def _save(self, position: int, stream: Any) -> None:
        path = self.folder / f"{position}.npz"
        keras_txl.generation.save_memory(path, stream.memory, self.lm)


def take_turns(
    streams: list[tuple[int, Any, int]],
    params: dict[str, Any],
    vocabulary_size: int,
    rounds: int,
) -> list[dict[str, Any]]:
    """Let streams at all positions, and the bound, take turns.

    A slow spell of the machine meets neighbours, so that ratios within a round
    hold where medians drift.

    Args:
        streams: mark, stream and position.
        params: of the cell.
        vocabulary_size: of the model.
        rounds: samples of each.

    Returns:
        For each stream `position` (the mark), `begin` and `end` of what was
        timed, and `samples`, seconds of a call; with the first one
        `bound_samples`, seconds of a token.
    """
    bound = Bound(params, vocabulary_size)
    timed: list[Callable[[], Any]] = [
        stream.__next__ for _, stream, _ in streams
    ]
    samples: list[list[float]] = [[] for _ in streams]
    bound_samples = []
    warm_up = 2
    for round_number in range(-warm_up, rounds):
        for turn in range(len(streams)):
            index = (turn + round_number) % len(streams)
            begin = time.perf_counter()
            timed[index]()
            seconds = time.perf_counter() - begin
            if round_number >= 0:
                samples[index].append(seconds)
        bound.read_once()  # what the streams left in the caches is gone
        if round_number >= 0:
            bound_samples.append(bound.read_once())
    tokens = params["tokens_per_call"]
    rows = [
        {
            "position": mark,
            "begin": position + warm_up * tokens,
            "end": position + (warm_up + rounds) * tokens,
            "samples": samples[index],
        }
        for index, (mark, _, position) in enumerate(streams)
    ]
    rows[0]["bound_samples"] = bound_samples
    return rows


def tell(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)
