"""Tokens a second that SegmentStream delivers, with nothing behind it.

    python benchmarks/bench_stream.py
    python benchmarks/bench_stream.py --quick

From a memory-mapped token file of 16-bit ids, by iterating and as `tf.data`,
over documents of one length. A sample is the time of about a million tokens;
`cpu_seconds` is what the process spent on them, whatever else the machine did.
"""

import functools
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import main

from keras_txl.data import SegmentStream
from keras_txl.data import TextPiece
from keras_txl.data import TokenFile
from keras_txl.data import encode_corpus

COUNTED = 2**20
FOLDER = tempfile.TemporaryDirectory()
CPU_SECONDS: dict[tuple[Any, ...], list[float]] = {}


class ReadStream:
    """Reading of a corpus on disk."""

    params: tuple[list[Any], ...] = (
        ["iterate", "tf_data"],
        [10_000, 25],  # tokens of a document: an article, a sentence
        [64, 8],
        [512, 128],
        ["no", "yes"],
        [2**26],
    )
    param_names = (
        "reader",
        "document_length",
        "batch_size",
        "segment_length",
        "shuffle_documents",
        "num_tokens",
    )

    def setup(
        self,
        reader: str,
        document_length: int,
        batch_size: int,
        segment_length: int,
        shuffle_documents: str,
        num_tokens: int,
    ) -> None:
        stream = SegmentStream(
            TokenFile(write_corpus(document_length, num_tokens), verify=False),
            batch_size,
            segment_length,
            shuffle_documents=shuffle_documents == "yes",
        )
        self.batches = COUNTED // (batch_size * segment_length)
        self.segments: Iterator[Any]
        if reader == "iterate":
            self.segments = iter(stream.repeat())
        else:
            self.segments = iter(stream.to_tf_dataset().repeat())
        for _ in range(2):
            next(self.segments)

    def time_million_tokens(self, *params: Any) -> None:
        begun = time.process_time()
        for _ in range(self.batches):
            next(self.segments)
        spent = time.process_time() - begun
        CPU_SECONDS.setdefault(params, []).append(spent)


@functools.cache
def write_corpus(document_length: int, num_tokens: int) -> Path:
    """A corpus of random ids, in documents of one length."""
    size = 2 * document_length
    noise = np.random.default_rng(0).bytes(max(size, 2**21))
    starts = range(0, len(noise) - size + 1, size)
    pieces = (
        TextPiece(noise[start : start + size])
        for start in itertools.islice(
            itertools.cycle(starts), num_tokens // document_length
        )
    )
    folder = Path(FOLDER.name, f"{document_length}-{num_tokens}")
    encode_corpus(
        pieces,
        folder,
        make_encoder=lambda: lambda data: np.frombuffer(data, "<u2"),
        vocabulary_size=2**16,
    )
    return folder


def conclude(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Millions of tokens a second by the clock, and of CPU time."""
    rates = []
    for cell in cells:
        if "samples" in cell:
            spent = CPU_SECONDS[tuple(cell["params"].values())]
            cell["cpu_seconds"] = spent[1:]  # the first is part of setting up
            rates.append(
                {
                    **cell["params"],
                    "million_tokens_per_second": _rate(cell["samples"]),
                    "million_tokens_per_cpu_second": _rate(spent[1:]),
                }
            )
    return {"rates": rates}


def _rate(seconds: list[float]) -> float:
    return COUNTED / float(np.median(seconds)) / 1e6


if __name__ == "__main__":
    main("stream", [ReadStream], conclude)
    FOLDER.cleanup()
