"""Memory of a process that encodes a corpus and streams it, above the imports.

    python benchmarks/bench_corpus_memory.py
    python benchmarks/bench_corpus_memory.py --quick --param megabytes=64

A text of random words is written to disk, turned into token ids by a word
tokenizer, and read through once as shuffled segments. `after_setup` is the
peak before that, with everything imported and the tokenizer made.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import main

from keras_txl.data import SegmentStream
from keras_txl.data import encode_corpus
from keras_txl.data import read_text_pieces
from keras_txl.tokenizers import train_tokenizer

NUM_DOCUMENTS = 16


class CorpusMemory:
    """One pass from text on disk to segments."""

    params: tuple[list[Any], ...] = ([2048],)
    param_names = ("megabytes",)

    def setup(self, megabytes: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        words = [f"word{number}" for number in range(5000)]
        self.tokenizer = train_tokenizer("word", [" ".join(words) + "\n"])
        self.tokenizer.tokenize("word1")
        for number in range(NUM_DOCUMENTS):
            with open(self.folder / f"{number:02d}.txt", "wb") as file:
                for block in text_blocks(words, number, megabytes):
                    file.write(block)

    def peakmem_encode_and_stream(self, megabytes: int) -> None:
        tokens = encode_corpus(
            read_text_pieces(self.folder),
            self.folder / "ids",
            tokenizer=self.tokenizer,
        )
        stream = SegmentStream(tokens, 32, 512, shuffle_documents=True)
        count = sum(int(weights.sum()) for _, _, weights in stream)
        if count != stream.num_targets:
            raise RuntimeError(f"{count} of {stream.num_targets} targets came.")
        tokens.release()
        shutil.rmtree(self.folder)


def text_blocks(words: list[str], seed: int, megabytes: int) -> Iterator[bytes]:
    """Blocks of a megabyte of lines of twenty random words."""
    rng = np.random.default_rng(seed)
    for _ in range(megabytes // NUM_DOCUMENTS):
        drawn = rng.integers(0, len(words), 2**20 // 9)
        lines = [
            " ".join(words[word] for word in drawn[start : start + 20])
            for start in range(0, len(drawn), 20)
        ]
        yield ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    main("corpus-memory", [CorpusMemory])
