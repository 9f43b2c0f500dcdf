"""Encoded corpora: what is written is read, and damage is told."""

import errno
import json
import os
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_txl.data import SegmentStream
from keras_txl.data import TokenFile
from keras_txl.data import corpus_encoding
from keras_txl.data import encode_corpus
from keras_txl.data import token_file
from keras_txl.data import token_file_writer
from keras_txl.data.token_file import smallest_type
from keras_txl.data.token_file_writer import TokenFileWriter

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

DOCUMENTS = [[1, 2, 3], [], [4], [250, 0, 7, 7]]


def write(path, documents=DOCUMENTS, vocabulary_size=256):
    writer = TokenFileWriter(path, vocabulary_size, {})
    try:
        for document in documents:
            writer.write(np.array(document, "int64"), True)
        writer.finish(num_bytes=0)
    finally:
        writer.close()
    return path


def test_documents_come_back(tmp_path):
    tokens = TokenFile(write(tmp_path))
    assert (tokens.num_tokens, tokens.num_documents) == (8, 4)
    assert [tokens.document(n).tolist() for n in range(4)] == DOCUMENTS
    assert tokens.lengths.tolist() == [3, 0, 1, 4]
    assert {path.name for path in tmp_path.iterdir()} == {
        "header.json",
        "tokens.bin",
        "documents.bin",
    }


@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        (256, "uint8"),
        (257, "uint16"),
        (65536, "uint16"),
        (65537, "uint32"),
        (267_735, "uint32"),
    ],
)
def test_ids_take_the_smallest_type(tmp_path, size, dtype):
    assert smallest_type(size) == dtype
    tokens = TokenFile(write(tmp_path, [[0, size - 1]], size))
    assert tokens.ids.dtype == dtype
    assert tokens.ids.tolist() == [0, size - 1]


@pytest.mark.parametrize("ids", [[256], [-1]])
def test_id_outside_of_the_vocabulary_is_refused(tmp_path, ids):
    with pytest.raises(ValueError, match="Ids must be from 0 to 255"):
        write(tmp_path, [ids])


@given(
    st.lists(
        st.lists(st.integers(0, 300), max_size=9), min_size=1, max_size=6
    ).filter(lambda corpus: any(len(d) > 1 for d in corpus)),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_stream_from_disk_is_that_from_memory(tmp_path_factory, corpus, b, t):
    path = write(tmp_path_factory.mktemp("tokens"), corpus, 301)
    first = SegmentStream(corpus, b, t)
    second = SegmentStream(TokenFile(path), b, t)
    for one, other in zip(first, second, strict=True):
        for key in one[0]:
            np.testing.assert_array_equal(one[0][key], other[0][key])
        np.testing.assert_array_equal(one[1], other[1])
        np.testing.assert_array_equal(one[2], other[2])


def test_system_without_pread_reads_the_same(tmp_path, monkeypatch):
    path = write(tmp_path, [range(99), range(50)])
    first = list(SegmentStream(TokenFile(path), 3, 8))
    monkeypatch.delattr(os, "pread")
    second = list(SegmentStream(TokenFile(path), 3, 8))
    np.testing.assert_array_equal(
        [targets for _, targets, _ in first],
        [targets for _, targets, _ in second],
    )


@pytest.mark.parametrize("name", ["tokens.bin", "documents.bin"])
def test_file_that_is_cut_short_is_told(tmp_path, name):
    write(tmp_path)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-1])
    with pytest.raises(ValueError, match=f"{name}.* instead of {len(data)}"):
        TokenFile(tmp_path, verify=False)
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match="of 0 bytes instead of"):
        TokenFile(tmp_path)


def test_every_changed_byte_is_told(tmp_path):
    write(tmp_path)
    for name in ("tokens.bin", "documents.bin"):
        data = (tmp_path / name).read_bytes()
        for place in range(len(data)):
            broken = bytearray(data)
            broken[place] ^= 1
            (tmp_path / name).write_bytes(broken)
            with pytest.raises(ValueError, match="damaged in block 0"):
                TokenFile(tmp_path)
        (tmp_path / name).write_bytes(data)
    TokenFile(tmp_path)


def test_damage_is_told_with_its_block(tmp_path, monkeypatch):
    for module in (token_file, token_file_writer):
        monkeypatch.setattr(module, "BLOCK_BYTES", 4)
    write(tmp_path, [range(11), range(3)])
    assert len(TokenFile(tmp_path).header["checksums"]["tokens.bin"]) == 4
    data = bytearray((tmp_path / "tokens.bin").read_bytes())
    data[9] ^= 1
    (tmp_path / "tokens.bin").write_bytes(data)
    with pytest.raises(ValueError, match="damaged in block 2"):
        TokenFile(tmp_path, verify=True)
    TokenFile(tmp_path, verify=False)  # read all of it only when asked to


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("num_tokens", None, r"counts \[256, None, "),
        ("num_tokens", "8", r"counts \[256, '8', "),
        ("num_documents", -1, r"counts .*, -1\]"),
        ("vocabulary_size", 257, "type '|u1'"),
        ("dtype", "<f4", "type '<f4'"),
        ("checksums", {"tokens.bin": [], "documents.bin": [0]}, "0 checksums"),
    ],
)
def test_header_that_does_not_fit_itself_is_told(tmp_path, name, value, told):
    write(tmp_path)
    header = json.loads((tmp_path / "header.json").read_text())
    header[name] = value
    (tmp_path / "header.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match=f"ValueError: {told}.*text again"):
        TokenFile(tmp_path)


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("", "JSONDecodeError"),
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"format": "other"}', "it is of format 'other'"),
        ('{"format": 3}', "it is of format 3"),
    ],
)
def test_header_of_something_else_is_told(tmp_path, header, told):
    write(tmp_path)
    (tmp_path / "header.json").write_text(header)
    with pytest.raises(
        ValueError, match=f"must be that of an encoded corpus.*{told}"
    ):
        TokenFile(tmp_path)


def test_unfinished_corpus_is_none(tmp_path):
    writer = TokenFileWriter(tmp_path, 256, {})
    writer.write(np.arange(5), True)
    writer.save_progress()
    writer.close()
    with pytest.raises(FileNotFoundError, match="data encode"):
        TokenFile(tmp_path)


def test_interrupted_run_goes_on_where_it_was(tmp_path):
    texts = [f"text {number}" for number in range(9)]
    whole = encode_corpus(texts, tmp_path / "whole", **BYTES)
    calls = []

    def stop_at_five(done):
        calls.append(done)
        if len(calls) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_corpus(texts, tmp_path / "a", progress=stop_at_five, **BYTES)
    # What a crash left behind what was safe.
    with open(tmp_path / "a" / ".partial" / "tokens.bin", "ab") as file:
        file.write(b"half")
    again = []
    found = encode_corpus(texts, tmp_path / "a", progress=again.append, **BYTES)
    assert len(again) == 4
    assert again[-1] == sum(map(len, texts))
    assert found.header == whole.header
    np.testing.assert_array_equal(found.ids, whole.ids)


def interrupt(path, texts):
    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_corpus(texts, path, progress=stop, **BYTES)


def test_other_texts_do_not_go_on_with_an_interrupted_run(tmp_path):
    interrupt(tmp_path, ["one text", "another"])
    with pytest.raises(ValueError, match="must be those of the run.*partial"):
        encode_corpus(["two text", "another"], tmp_path, **BYTES)
    assert len(encode_corpus(["one text", "b"], tmp_path, **BYTES)) == 2


def test_interruption_within_a_piece_leaves_it_out(tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(token_file_writer.zlib, "crc32", stop)
        writer = TokenFileWriter(tmp_path, 256, {})
        with pytest.raises(KeyboardInterrupt):
            writer.write(np.arange(5), True)
        writer.save_progress()
        writer.close()
    write(tmp_path)
    assert TokenFile(tmp_path).num_tokens == 8


def test_full_disk_is_told_and_the_work_goes_on(tmp_path, monkeypatch):
    texts = ["one text", "another"]
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(corpus_encoding, "SAFE_SECONDS", -1)  # every piece
        # There is room for the first piece: both of its files.
        patch.setattr(os, "fsync", Mock(side_effect=[None, None, *[full] * 9]))
        with pytest.raises(OSError, match="cannot be written .*Make room"):
            encode_corpus(texts, tmp_path, **BYTES)
    calls = []
    found = encode_corpus(texts, tmp_path, progress=calls.append, **BYTES)
    assert calls == [sum(map(len, texts))]  # the second piece alone
    assert bytes(found.ids) == "".join(texts).encode()


@pytest.mark.parametrize("change", ["settings", "damage"])
def test_work_that_does_not_fit_is_begun_anew(tmp_path, change):
    texts = ["one text", "another"]
    interrupt(tmp_path, texts)
    settings = None
    if change == "settings":
        settings = {"tokenizer": "another"}
    else:
        path = tmp_path / ".partial" / "tokens.bin"
        path.write_bytes(path.read_bytes()[:3])
    calls = []
    encode_corpus(
        texts, tmp_path, progress=calls.append, settings=settings, **BYTES
    )
    assert len(calls) == 2


def read_bytes():
    """Makes an encoder of bytes; worker processes import it from here."""
    return lambda data: np.frombuffer(data, "uint8")


BYTES = {"make_encoder": read_bytes, "vocabulary_size": 256}


def test_arguments_must_fit_together(tmp_path):
    with pytest.raises(ValueError, match="Either `tokenizer` or"):
        encode_corpus(["a"], tmp_path)
    with pytest.raises(ValueError, match="several workers need"):
        encode_corpus(["a"], tmp_path, tokenizer=object(), num_workers=2)


def test_header_tells_tokenizer_and_counts(tmp_path):
    from keras_txl.tokenizers import train_tokenizer

    tokenizer = train_tokenizer("word", ["a b\n"])
    encode_corpus(["a\n", "b a c"], tmp_path, tokenizer=tokenizer)
    header = json.loads((tmp_path / "header.json").read_text())
    assert header["num_tokens"] == 5
    assert header["num_documents"] == 2
    assert header["num_bytes"] == 7
    assert header["vocabulary_size"] == 4
    assert header["settings"] == {
        "tokenizer": "TransformerXLWordTokenizer",
        "tokenizer_sha256": tokenizer.fingerprint,
    }
