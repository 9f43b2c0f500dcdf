"""Text in files of every kind, read in memory and in pieces."""

import bz2
import gzip
import io
import json
import lzma
import sys
import tarfile
import zipfile

import pytest

from keras_txl.data import load_corpus
from keras_txl.data import read_text_pieces

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

TEXT = "né 😀 line\n" * 50
ROWS = [f"row {number} é" for number in range(600)]


def compress_zst(data):
    import pyarrow

    return pyarrow.compress(data, "zstd", asbytes=True)


COMPRESSORS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": compress_zst,
}


def read(source, **options):
    corpus = load_corpus(
        source,
        validation_fraction=0,
        test_fraction=0,
        minimum_bytes=1,
        **options,
    )
    return {document.name: document.data for document in corpus.train}


def read_pieces(source, **options):
    documents, begun = [], b""
    for piece in read_text_pieces(source, **options):
        begun += piece.data
        if piece.ends_document:
            documents.append(begun)
            begun = b""
    return documents


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_file_is_its_text(tmp_path, suffix):
    path = tmp_path / f"text.txt{suffix}"
    halves = TEXT[:99], TEXT[99:]  # written one behind the other, as by cat
    path.write_bytes(
        b"".join(COMPRESSORS[suffix](half.encode()) for half in halves)
    )
    expected = {"text.txt": TEXT.encode()}
    assert read(path) == read(tmp_path) == expected
    assert read_pieces(path) == [TEXT.encode()]


def test_archive_holds_a_document_a_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b/two.txt", "two")
        archive.writestr("b/one.txt.gz", gzip.compress(b"one"))
        archive.writestr(".hidden", "no")
        archive.writestr("__MACOSX/x", "no")
    expected = {"a.zip/b/one.txt": b"one", "a.zip/b/two.txt": b"two"}
    assert read(tmp_path / "a.zip") == expected
    assert read_pieces(tmp_path / "a.zip") == [b"one", b"two"]


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.tar.gz", "a.tar.xz"])
def test_tar_archive_holds_a_document_a_file(tmp_path, name):
    mode = {".tar": "w", ".xz": "w:xz"}.get(name[name.rindex(".") :], "w:gz")
    with tarfile.open(tmp_path / name, mode) as archive:
        for entry, text in (("./b/one.txt", b"one"), ("two", b"two")):
            info = tarfile.TarInfo(entry)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    assert read_pieces(tmp_path / name) == [b"one", b"two"]
    assert list(read(tmp_path / name).values()) == [b"one", b"two"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_json_lines_hold_a_document_a_line(tmp_path, suffix):
    lines = [json.dumps({"text": row, "id": 1}) for row in ROWS]
    data = "\n\n".join(lines).encode()
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(COMPRESSORS[suffix](data) if suffix else data)
    assert read_pieces(path) == [row.encode() for row in ROWS]
    assert set(read(path).values()) == {row.encode() for row in ROWS}
    assert read(path, max_bytes=20)


def test_parquet_holds_a_document_a_row(tmp_path):
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"body": [*ROWS, None], "id": range(601)})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    found = read_pieces(tmp_path / "rows.parquet", text_column="body")
    assert found == [row.encode() for row in ROWS]
    with pytest.raises(ValueError, match="must be one of body, id.*'text'"):
        read_pieces(tmp_path)
    rows = load_corpus(tmp_path, text_column="body", seed=1)
    assert sum(rows.sizes.values()) == sum(len(row.encode()) for row in ROWS)


def test_rows_without_a_text_are_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": null}\n{"text": "a"}')
    assert read_pieces(path) == [b"a"]
    assert [d.data for d in load_corpus({"train": [None, "a"]}).train] == [b"a"]


def test_half_a_character_in_json_is_read_as_one_that_is_damaged(tmp_path):
    from keras_txl.tokenizers import TransformerXLCharacterTokenizer

    path = tmp_path / "rows.jsonl"
    path.write_text(r'{"text": "a\ud83d"}')
    (text,) = read_pieces(path)
    tokenizer = TransformerXLCharacterTokenizer("a\ufffd")
    ids = tokenizer.tokenize(text)
    assert set(tokenizer.detokenize(ids)) == {"a", "\ufffd"}


@pytest.mark.parametrize(
    "line",
    ["{", "[1]", '{"body": "a"}', "3", '"text"', '{"text": 3}', "[" * 10**5],
)
def test_line_without_text_is_told(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a"}) + "\n" + line)
    with pytest.raises(ValueError, match="line 2 of 'rows.jsonl'"):
        read_pieces(path)


def test_column_of_numbers_is_told(tmp_path):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="must hold texts.*'text'.*int"):
        read_pieces(tmp_path)


def test_parquet_in_what_is_read_once_is_told(tmp_path):
    import pyarrow

    (tmp_path / "rows.parquet").write_bytes(b"any")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        archive.add(tmp_path / "rows.parquet", "rows.parquet")
    data = pyarrow.compress(b"any", "zstd", asbytes=True)
    (tmp_path / "rows.parquet.zst").write_bytes(data)
    for name in ("a.tgz", "rows.parquet.zst"):
        with pytest.raises(ValueError, match="rows.parquet'. Unpack it first"):
            read_pieces(tmp_path / name)


@pytest.mark.parametrize("suffix", [*COMPRESSORS, ".zip", ".tar", ".parquet"])
@pytest.mark.parametrize("damage", ["cut", "other"])
def test_damaged_file_is_told(tmp_path, suffix, damage):
    path = tmp_path / f"a{suffix}"
    data = COMPRESSORS.get(suffix, bytes)(b"some text" * 999)
    path.write_bytes(data[:20] if damage == "cut" else b"of another kind" * 99)
    for read_all in (read, read_pieces):
        with pytest.raises(ValueError, match=r"must be whole.*a\."):
            read_all(path)


def test_archive_with_a_password_is_told(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one.txt", "one")
    data = bytearray(path.read_bytes())
    data[6] |= 1  # the flag, in front of the file and in the list of files
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="without a password"):
        read_pieces(path)


@pytest.mark.parametrize("suffix", [".zst", ".parquet"])
def test_missing_package_is_named(tmp_path, monkeypatch, suffix):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / f"a{suffix}").write_bytes(b"data")
    with pytest.raises(ImportError, match=r"pyarrow.*keras-txl\[data\]"):
        read_pieces(tmp_path)


class Tensor:
    """A string of TensorFlow, as tensorflow-datasets gives it."""

    def __init__(self, data):
        self.data = data

    def numpy(self):
        return self.data


@pytest.mark.parametrize(
    "row", [str, str.encode, lambda s: {"text": s}, lambda s: {
        "text": Tensor(s.encode()), "id": 1}],
    ids=["str", "bytes", "datasets", "tensorflow-datasets"],
)  # fmt: skip
def test_data_set_of_another_package_is_read_by_row(row):
    corpus = load_corpus(map(row, ROWS))
    found = [d.data for p in (corpus.train, corpus.validation, corpus.test)
             for d in p]  # fmt: skip
    assert sorted(found) == sorted(text.encode() for text in ROWS)
    assert min(corpus.sizes.values()) > 0


def test_data_set_in_parts_keeps_its_parts():
    parts = {"train": ["a", "b"], "test": [{"text": "c"}]}
    corpus = load_corpus(parts)
    assert [document.data for document in corpus.train] == [b"a", b"b"]
    assert corpus.validation == ()
    assert [document.data for document in corpus.test] == [b"c"]
    with pytest.raises(ValueError, match="must have the part train"):
        load_corpus({"test": ["a"]})


@pytest.mark.parametrize(
    ("rows", "error"),
    [([3], TypeError), ([{"body": "a"}], ValueError), ([], ValueError)],
)
def test_rows_without_text_are_told(rows, error):
    with pytest.raises(error, match="text_column"):
        load_corpus(rows)
