"""What memory buys on held-out text: one model, several memories.

All rows predict the same bytes in the same segments. "zeroed" keeps the
attention span of the memory and takes its contents away.
"""

import bz2
import lzma
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_txl.cli.encoded_texts import encode_documents
from keras_txl.cli.encoded_texts import target_bytes
from keras_txl.cli.encoded_texts import unit_of
from keras_txl.cli.wording import counted
from keras_txl.data.text_files import character_start
from keras_txl.evaluation import BootstrapInterval
from keras_txl.evaluation import StreamEvaluation
from keras_txl.evaluation import bootstrap_difference
from keras_txl.evaluation import evaluate_stream

MULTIPLES = (0, 1, 2, 4)
"""Memory lengths in segments."""

FEW_DOCUMENTS = 20
PIECE_BYTES = 4096


@dataclass(frozen=True)
class MemoryTable:
    """Results of the held-out evaluation.

    Args:
        segment_length: tokens read in one call.
        evaluations: evaluation for each memory length, in tokens.
        zeroed: evaluation at one segment of memory with zeroed states.
        compressors: bits per byte of compressors on the same bytes.
        interval: memory of one segment minus no memory; None if the text
            has too few documents.
        num_documents: documents that were evaluated.
        num_bytes: their bytes.
        was_cut: whether they are pieces of larger documents.
        unit: what a token is called.
    """

    segment_length: int
    evaluations: dict[int, StreamEvaluation]
    zeroed: StreamEvaluation
    compressors: dict[str, float]
    interval: BootstrapInterval | None
    num_documents: int
    num_bytes: int
    was_cut: bool
    unit: str = "byte"

    def rows(self) -> list[tuple[str, float]]:
        """Labels and bits per byte, in the order they are shown in."""
        rows = []
        for length, result in self.evaluations.items():
            times = length // self.segment_length
            told = f"memory {times}x ({length} {self.unit}s)"
            label = told if times else "memory 0"
            rows.append((label, result.bits_per_byte))
            if times == 1:
                rows.append(("memory 1x, zeroed", self.zeroed.bits_per_byte))
        return [*rows, *self.compressors.items()]

    def documents_told(self, number: int | None = None) -> str:
        """`number` documents or pieces of such; default: all of the table."""
        number = self.num_documents if number is None else number
        if self.was_cut:
            return f"{counted(number, 'piece')} of documents"
        return counted(number, "document")

    def verdict(self) -> str:
        """What the interval says, in a sentence."""
        interval = self.interval
        if interval is None:
            return (
                "The held-out text has a single document: there is no "
                "interval for what memory buys."
            )
        told = (
            f"Memory 1x minus memory 0: {interval.estimate:+.4f} bits per "
            f"byte, 95 % interval [{interval.low:+.4f}, {interval.high:+.4f}] "
            f"over {self.documents_told(interval.num_documents)}."
        )
        if interval.high < 0:
            return f"{told} Memory lowers the figure."
        if interval.low > 0:
            return f"{told} Memory RAISES the figure: it does not pay here."
        return (
            f"{told} The interval does NOT exclude zero: this run does not "
            "show that memory helps. Train longer, or evaluate more text."
        )


def hold_out(
    documents: Sequence[bytes], limit: int
) -> tuple[list[bytes], bool]:
    """Documents to evaluate: whole ones while they last, enough of them.

    Args:
        documents: held-out documents in the order they are taken.
        limit: bytes that are enough. Up to half as much again is taken where
            that makes enough documents for an interval.

    Returns:
        The documents, and whether they had to be cut in pieces because an
        interval over so few documents would mean nothing.
    """
    taken: list[bytes] = []
    size = 0
    for document in documents:
        enough = len(taken) >= FEW_DOCUMENTS or size >= 1.5 * limit
        if size >= limit and enough:
            break
        taken.append(document)
        size += len(document)
    if len(taken) >= FEW_DOCUMENTS:
        return taken, False
    # Short texts are cut finer, down to pieces that still exercise memory.
    piece = max(256, min(PIECE_BYTES, size // FEW_DOCUMENTS))
    pieces = []
    for document in taken:
        document = document[:limit]
        places = [
            character_start(document, place)
            for place in range(0, len(document) + piece, piece)
        ]
        for start, stop in zip(places, places[1:], strict=False):
            pieces.append(document[start:stop])
    return [piece for piece in pieces if len(piece) > 1], True


def measure_memory(
    lm: Any,
    documents: Sequence[bytes],
    was_cut: bool,
    tokenizer: Any,
    *,
    segment_length: int,
    batch_size: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> MemoryTable:
    """Evaluate held-out documents under every memory of the table.

    Args:
        lm: a `TransformerXLCausalLM`.
        documents: what `hold_out` returned.
        was_cut: what `hold_out` returned.
        tokenizer: turns documents into token ids.
        segment_length: tokens read in one call.
        batch_size: streams side by side.
        seed: seed of the bootstrap.
        progress: called as `progress(done, total)` over all evaluations.

    Returns:
        A `MemoryTable`.
    """
    settings = [(n * segment_length, False) for n in MULTIPLES]
    settings.append((segment_length, True))
    results = []
    ids = encode_documents(tokenizer, documents)
    sizes = target_bytes(tokenizer, documents, ids)
    for number, (memory_length, zero_memory) in enumerate(settings):

        def report(done: int, total: int, number: int = number) -> None:
            progress(number * total + done, len(settings) * total)

        results.append(
            evaluate_stream(
                lm,
                ids,
                segment_length=segment_length,
                batch_size=batch_size,
                memory_length=memory_length,
                zero_memory=zero_memory,
                document_bytes=sizes,
                progress=report,
            )
        )
    interval = None
    if len(documents) > 1:
        interval = bootstrap_difference(results[1], results[0], seed=seed)
    return MemoryTable(
        segment_length=segment_length,
        evaluations={
            n * segment_length: result
            for n, result in zip(MULTIPLES, results[:-1], strict=True)
        },
        zeroed=results[-1],
        compressors=_compressed_bits(b"".join(documents)),
        interval=interval,
        num_documents=len(documents),
        num_bytes=sum(map(len, documents)),
        was_cut=was_cut,
        unit=unit_of(tokenizer),
    )


def _compressed_bits(text: bytes) -> dict[str, float]:
    """Bits per byte of compressors at their highest setting."""
    return {
        "xz": 8 * len(compress_xz(text)) / len(text),
        "bzip2": 8 * len(bz2.compress(text, 9)) / len(text),
    }


def compress_xz(text: bytes) -> bytes:
    """`text` as `xz -9e` would compress it."""
    return lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)
