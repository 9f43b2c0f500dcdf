"""Tokens a second that SegmentStream delivers, with nothing behind it.

    python benchmarks/bench_stream.py
    python benchmarks/bench_stream.py --quick

From a memory-mapped token file, by iterating and as `tf.data`, over documents
of one length. A pass is read; a sample is the time of a million tokens.
"""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import main

from keras_txl.data import SegmentStream
from keras_txl.data import TextPiece
from keras_txl.data import TokenFile
from keras_txl.data import encode_corpus

NUM_TOKENS = 2**26
COUNTED = 2**20


class ReadStream:
    """Reading of a corpus of 16-bit ids on disk."""

    params = (
        ["iterate", "tf_data"],
        [25, 10_000],  # tokens of a document: a sentence, an article
        [8, 64],
        [128, 512],
        [False, True],
    )
    param_names = (
        "reader",
        "document_length",
        "batch_size",
        "segment_length",
        "shuffle_documents",
    )

    def setup(
        self,
        reader: str,
        document_length: int,
        batch_size: int,
        segment_length: int,
        shuffle_documents: bool,
    ) -> None:
        self.folder = tempfile.TemporaryDirectory()
        tokens = write_corpus(Path(self.folder.name), document_length)
        stream = SegmentStream(
            tokens,
            batch_size,
            segment_length,
            shuffle_documents=shuffle_documents,
        )
        self.batches = COUNTED // (batch_size * segment_length)
        self.segments: Any = itertools.cycle(
            iter(stream.to_tf_dataset()) if reader == "tf_data" else stream
        )
        if reader == "iterate":
            self.segments = iter(stream.repeat())
        next(self.segments)

    def time_million_tokens(self, *params: Any) -> None:
        for _ in range(self.batches):
            next(self.segments)


def write_corpus(folder: Path, document_length: int) -> TokenFile:
    """A corpus of random 16-bit ids, in documents of one length."""
    size = NUM_TOKENS // document_length * document_length * 2
    noise = np.random.default_rng(0).bytes(2**21)

    def pieces() -> Any:
        left = size
        while left > 0:
            for start in range(0, len(noise), 2 * document_length):
                piece = noise[start : start + 2 * document_length]
                if left <= 0 or len(piece) < 2 * document_length:
                    break
                left -= len(piece)
                yield TextPiece(piece)

    return encode_corpus(
        pieces(),
        folder,
        make_encoder=lambda: lambda data: np.frombuffer(data, "<u2"),
        vocabulary_size=2**16,
    )


def conclude(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Millions of tokens a second, from the median of each cell."""
    rates = [
        {
            **cell["params"],
            "million_tokens_per_second": COUNTED
            / float(np.median(cell["samples"]))
            / 1e6,
        }
        for cell in cells
        if "samples" in cell
    ]
    return {"rates": rates}


if __name__ == "__main__":
    main("stream", [ReadStream], conclude)
