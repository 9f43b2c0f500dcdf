"""Pieces encode like the whole, workers like one process, in little memory."""

import functools
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.cli.encoded_texts import make_encoder
from keras_txl.data import TokenFile
from keras_txl.data import corpus_encoding
from keras_txl.data import encode_corpus
from keras_txl.data import text_pieces
from keras_txl.data.text_pieces import cut_pieces
from keras_txl.tokenizers import train_tokenizer

pytestmark = pytest.mark.backend("tensorflow")

TEXT = (
    " = The Ship = \n\n The ship @-@ 12 sails , né and on . \n"
    "def f(x):\n    return x\n\n\nclass A:\n\tpass\r\n😀 they're 'ere\n"
)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(text_pieces, "PIECE_BYTES", 40)
    monkeypatch.setattr(text_pieces, "SEARCHED_BYTES", 30)


@given(st.lists(st.binary(max_size=90), max_size=9))
def test_pieces_end_to_end_are_the_document(chunks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_pieces, "PIECE_BYTES", 40)
        patch.setattr(text_pieces, "SEARCHED_BYTES", 30)
        pieces = list(cut_pieces(chunks))
    assert b"".join(piece.data for piece in pieces) == b"".join(chunks)
    assert [p.ends_document for p in pieces] == [False] * (len(pieces) - 1) + [
        True
    ]
    assert all(len(piece.data) <= 70 for piece in pieces)


@given(st.text("aé😀", max_size=99))
def test_no_piece_ends_within_a_character(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_pieces, "PIECE_BYTES", 40)
        patch.setattr(text_pieces, "SEARCHED_BYTES", 30)
        for piece in cut_pieces([text.encode()]):
            piece.data.decode()


@pytest.mark.parametrize(
    "kind", ["byte", "character", "word", "byte-pair", "sentence-piece"]
)
def test_pieces_encode_like_the_whole(kind, small_pieces, tmp_path):
    size = {"byte-pair": 330, "sentence-piece": 340}.get(kind)
    text = TEXT * 12
    tokenizer = train_tokenizer(kind, [text], vocabulary_size=size)
    tokens = encode_corpus([text, TEXT], tmp_path, tokenizer=tokenizer)
    assert len(list(cut_pieces([text.encode()]))) > 20
    for number, document in enumerate([text, TEXT]):
        np.testing.assert_array_equal(
            tokens.document(number), np.asarray(tokenizer.tokenize(document))
        )


@given(
    st.lists(
        st.sampled_from(["слово A b.\n", "élan C d\n", " = a b = \n"]),
        min_size=9,
        max_size=20,
    )
)
def test_lines_of_any_script_begin_where_they_do_in_the_whole(lines):
    text = "".join(lines)
    tokenizer = train_tokenizer(
        "word", [text + "\n"], end_of_line_token="S", start_of_line_token="S"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_pieces, "PIECE_BYTES", 40)
        patch.setattr(text_pieces, "SEARCHED_BYTES", 30)
        pieces = [
            tokenizer.tokenize(p.data) for p in cut_pieces([text.encode()])
        ]
    np.testing.assert_array_equal(
        np.concatenate(pieces), tokenizer.tokenize(text)
    )


def test_several_processes_write_what_one_writes(small_pieces, tmp_path):
    train_tokenizer("word", [TEXT]).save_to_preset(str(tmp_path / "words"))
    encoders = {
        "make_encoder": functools.partial(make_encoder, tmp_path / "words"),
        "vocabulary_size": 64,
    }
    texts = [TEXT * 4, "the ship"]
    one = encode_corpus(texts, tmp_path / "one", **encoders)
    two = encode_corpus(texts, tmp_path / "two", num_workers=2, **encoders)
    assert two.header == one.header
    np.testing.assert_array_equal(two.ids, one.ids)


def test_error_of_a_worker_is_told(tmp_path):
    train_tokenizer("character", ["ab"]).save_to_preset(str(tmp_path / "c"))
    with pytest.raises(ValueError, match="must be in the vocabulary"):
        encode_corpus(
            ["abc"],
            tmp_path / "out",
            make_encoder=functools.partial(make_encoder, tmp_path / "c"),
            vocabulary_size=2,
            num_workers=2,
        )


def test_worker_that_dies_is_told_and_what_is_safe_stays(tmp_path, monkeypatch):
    pool = MagicMock()
    pool.return_value.__enter__.return_value.submit.side_effect = (
        BrokenProcessPool
    )
    monkeypatch.setattr(corpus_encoding, "ProcessPoolExecutor", pool)
    with pytest.raises(RuntimeError, match="Worker processes must live.*2"):
        encode_corpus(
            ["a"], tmp_path, make_encoder=str, vocabulary_size=9, num_workers=2
        )
    assert (tmp_path / ".partial" / "progress.json").is_file()


MEMORY = """
import resource, sys
import numpy as np
import keras_txl.data as data

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

source, target, begun = sys.argv[1], sys.argv[2], peak()
tokens = data.encode_corpus(
    data.read_text_pieces(source),
    target,
    make_encoder=lambda: lambda text: np.frombuffer(text, "uint8"),
    vocabulary_size=256,
)
stream = data.SegmentStream(tokens, 16, 512, shuffle_documents=True)
count = sum(int(weights.sum()) for _, _, weights in stream)
print(count, peak() - begun)
"""


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    megabytes = 192
    line = b"some text that is long enough to be read a few times over . \n"
    block = line * (2**20 // len(line))
    with open(tmp_path / "text.txt", "wb") as file:
        for _ in range(megabytes):
            file.write(block)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, tmp_path / "text.txt", tmp_path / "ids"],
        capture_output=True,
        text=True,
        check=True,
    )
    count, grown = done.stdout.split()
    assert int(count) == megabytes * len(block) - 1
    assert float(grown) < 120  # MiB, of 192 on disk
    TokenFile(tmp_path / "ids").release()
