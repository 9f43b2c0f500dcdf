"""What the table says about memory, in numbers and in words."""

import bz2
import lzma
import re

import numpy as np
import pytest

from keras_txl.cli.memory_table import MemoryTable
from keras_txl.cli.memory_table import compress_xz
from keras_txl.cli.memory_table import hold_out
from keras_txl.cli.memory_table import measure_memory
from keras_txl.evaluation import BootstrapInterval
from keras_txl.evaluation import StreamEvaluation
from keras_txl.tokenizers import TransformerXLByteTokenizer
from tests.oracles.told_losses import ToldLosses


def table(low, high, was_cut=False):
    ones = np.ones(30)
    result = StreamEvaluation(ones, ones, ones, 1.0, 30)
    return MemoryTable(
        segment_length=64,
        evaluations={0: result, 64: result},
        zeroed=result,
        compressors={"xz": 2.0},
        interval=BootstrapInterval((low + high) / 2, low, high, 0.95, 30),
        num_documents=30,
        num_bytes=30,
        was_cut=was_cut,
    )


def test_a_settled_gain_is_said_plainly():
    told = table(-0.3, -0.1).verdict()
    assert "-0.2000 bits per byte, 95 % interval [-0.3000, -0.1000]" in told
    assert told.endswith("Memory lowers the figure.")


def test_an_interval_with_zero_is_said_plainly():
    told = table(-0.3, 0.1).verdict()
    assert "does NOT exclude zero" in told
    assert "lowers" not in told


def test_a_loss_by_memory_is_said_plainly():
    assert "Memory RAISES the figure" in table(0.1, 0.2).verdict()


def test_pieces_are_not_called_documents():
    assert "over 30 pieces of documents" in table(-2, -1, True).verdict()


def test_enough_whole_documents_stay_whole():
    documents = [bytes([n]) * 100 for n in range(40)]
    taken, was_cut = hold_out(documents, 2500)
    assert not was_cut
    assert taken == documents[:25]


def test_some_more_is_taken_for_enough_documents():
    documents = [bytes([n]) * 100 for n in range(40)]
    taken, was_cut = hold_out(documents, 1500)
    assert not was_cut
    assert taken == documents[:20]


def test_few_documents_are_cut_into_pieces():
    taken, was_cut = hold_out([b"a" * 50_000, b"b" * 50_000], 2**18)
    assert was_cut
    assert len(taken) >= 20
    assert b"".join(taken) == b"a" * 50_000 + b"b" * 50_000


def test_one_huge_document_is_taken_in_part_only():
    taken, was_cut = hold_out([b"a" * 1_000_000], 100_000)
    assert was_cut
    assert sum(map(len, taken)) == 100_000


def test_compressors_are_those_that_decompress():
    text = b"some text to compress, " * 20
    assert lzma.decompress(compress_xz(text)) == text


class CountingModel(ToldLosses):
    """Loses one nat a token, less with memory."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def losses(self, inputs, memory):
        states = memory["states"]
        self.calls.append((states.shape[2], float(states.sum())))
        loss = 1.0 / (1 + states.shape[2] * states.max(initial=0.0))
        return np.full(inputs["token_ids"].shape, loss)


def test_every_setting_reads_the_same_bytes_in_the_same_segments():
    documents = [bytes([65 + n]) * 40 for n in range(25)]
    lm = CountingModel()
    result = measure_memory(
        lm,
        documents,
        False,
        TransformerXLByteTokenizer(),
        segment_length=8,
        batch_size=2,
        seed=0,
        progress=lambda done, total: None,
    )
    assert list(result.evaluations) == [0, 8, 16, 32]
    per_setting = len(lm.calls) // 5
    lengths = [length for length, _ in lm.calls[::per_setting]]
    assert lengths == [0, 8, 16, 32, 8]
    # Only the last setting is given zeros.
    assert {total for _, total in lm.calls[-per_setting:]} == {0.0}
    assert all(total > 0 for length, total in lm.calls[:-per_setting] if length)
    targets = {e.num_targets for e in result.evaluations.values()}
    assert targets == {result.zeroed.num_targets} == {25 * 39}
    text = b"".join(documents)
    assert result.compressors["bzip2"] == 8 * len(bz2.compress(text, 9)) / 1000
    assert result.interval.high < 0
    labels = [label for label, _ in result.rows()]
    assert labels == [
        "memory 0",
        "memory 1x (8 bytes)",
        "memory 1x, zeroed",
        "memory 2x (16 bytes)",
        "memory 4x (32 bytes)",
        "xz",
        "bzip2",
    ]


def test_a_single_document_has_no_interval_and_says_so():
    result = table(-2, -1)
    alone = MemoryTable(**{**vars(result), "interval": None})
    assert re.search("single document.*no interval", alone.verdict())


@pytest.mark.parametrize("size", [1, 100, 5000, 300_000])
def test_no_piece_is_without_a_target(size):
    for limit in (10, 2**18):
        taken, _ = hold_out([b"x" * size], limit)
        assert all(len(piece) > 1 for piece in taken)
