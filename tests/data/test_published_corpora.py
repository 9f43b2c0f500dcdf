"""Published corpora: their splits, and downloads from a server that fails."""

import hashlib
import http.client
import http.server
import io
import ssl
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keras_txl.cli.model_folder import NAMED_CORPORA
from keras_txl.data import downloads
from keras_txl.data import load_corpus
from keras_txl.data import published_corpora
from keras_txl.data.downloads import Download
from keras_txl.data.downloads import cache_folder
from keras_txl.data.downloads import fetch
from keras_txl.data.published_corpora import PUBLISHED
from keras_txl.data.published_corpora import PublishedCorpus

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

DATA = bytes(range(256)) * 900
SHA256 = hashlib.sha256(DATA).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`, breaks off after `limit` bytes, counts requests.

    After `most` of them it has no file any more.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.limit = None
        self.most = None
        self.ranges = True
        self.requests = []

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        data = self.server.files.get(self.path[1:])
        most = self.server.most
        if data is None or (most and len(self.server.requests) > most):
            self.send_error(404)
            return
        start = 0
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start : self.server.limit])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_file_is_fetched_once_and_checked(server, tmp_path):
    server.files["a.bin"] = DATA
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    for _ in range(2):
        path = fetch(download, tmp_path / "new")
        assert path.read_bytes() == DATA
    assert server.requests == [("/a.bin", None)]
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.bin"]


@pytest.mark.parametrize("ranges", [True, False])
def test_broken_transfer_goes_on(server, tmp_path, ranges, capsys):
    server.files["a.bin"] = DATA
    server.limit, server.ranges = 100_000, ranges
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    with pytest.raises(ConnectionError, match="broke off 130,400 bytes"):
        fetch(download, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [".a.bin.partial"]
    server.limit = None
    assert fetch(download, tmp_path).read_bytes() == DATA
    assert server.requests[-1] == ("/a.bin", "bytes=100000-")
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]
    told = capsys.readouterr().out
    assert f"Downloading {download.url}" in told
    assert f"{len(DATA)}/{len(DATA)}" in told  # of the whole, in both runs


def test_rest_that_is_too_long_is_begun_anew(server, tmp_path):
    server.files["a.bin"] = DATA
    (tmp_path / ".a.bin.partial").write_bytes(DATA + b"more")
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    assert fetch(download, tmp_path).read_bytes() == DATA


@pytest.mark.parametrize("error", [ssl.SSLError, OSError, TimeoutError])
def test_network_that_fails_midway_is_not_taken_for_the_disk(
    server, tmp_path, monkeypatch, error
):
    server.files["a.bin"] = DATA
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    monkeypatch.setattr(downloads, "CHUNK_BYTES", 100_000)
    read = http.client.HTTPResponse.read

    def read_once(response, size):
        if response.length < len(DATA):
            raise error("the line is dead")
        return read(response, size)

    with monkeypatch.context() as patch:
        patch.setattr(http.client.HTTPResponse, "read", read_once)
        with pytest.raises(ConnectionError, match="the line is dead"):
            fetch(download, tmp_path)
    assert (tmp_path / ".a.bin.partial").stat().st_size == 100_000
    assert fetch(download, tmp_path).read_bytes() == DATA
    assert server.requests[-1] == ("/a.bin", "bytes=100000-")


def test_who_wants_the_same_file_waits_for_the_first(server, tmp_path):
    server.files["a.bin"] = DATA
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    with ThreadPoolExecutor(4) as pool:
        paths = [pool.submit(fetch, download, tmp_path) for _ in range(4)]
        assert {path.result().read_bytes() for path in paths} == {DATA}
    assert len(server.requests) == 1


def test_wrong_file_is_refused_and_leaves_nothing(server, tmp_path):
    server.files["a.bin"] = DATA[:-1] + b"x"
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    with pytest.raises(ValueError, match=f"instead of {SHA256}"):
        fetch(download, tmp_path)
    assert not list(tmp_path.iterdir())


def test_wrong_rest_is_fetched_anew_from_its_beginning(server, tmp_path):
    """The file has changed since; `get_file` of Keras finds it out."""
    server.files["a.bin"] = DATA
    (tmp_path / ".a.bin.partial").write_bytes(b"older")
    download = Download(server.url("a.bin"), "a.bin", SHA256)
    assert fetch(download, tmp_path).read_bytes() == DATA
    assert [wanted for _, wanted in server.requests] == ["bytes=5-", None]
    (tmp_path / "a.bin").unlink()
    server.files["a.bin"] = b"x" + DATA[1:]
    server.most = len(server.requests) + 1
    with pytest.raises(ConnectionError, match="URL fetch failure"):
        fetch(download, tmp_path)
    assert not list(tmp_path.iterdir())


def test_file_put_there_by_hand_is_checked(tmp_path):
    download = Download("http://127.0.0.1:9/a.bin", "a.bin", SHA256)
    (tmp_path / "a.bin").write_bytes(DATA)
    assert fetch(download, tmp_path) == tmp_path / "a.bin"
    (tmp_path / "a.bin").write_bytes(b"other")
    with pytest.raises(ValueError, match="Remove it to download it anew"):
        fetch(download, tmp_path)


def test_without_network_the_way_out_is_told(tmp_path):
    download = Download("http://127.0.0.1:9/a.bin", "a.bin", SHA256)
    with pytest.raises(ConnectionError) as caught:
        fetch(download, tmp_path)
    assert not list(tmp_path.iterdir())
    assert "http://127.0.0.1:9/a.bin" in str(caught.value)
    assert f"put it at {str(tmp_path / 'a.bin')!r}" in str(caught.value)


def test_missing_file_of_a_server_is_told(server, tmp_path):
    download = Download(server.url("b.bin"), "b.bin")
    with pytest.raises(ConnectionError, match="404"):
        fetch(download, tmp_path)


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no full disk"
)
def test_full_disk_is_told_and_leaves_nothing(server, tmp_path):
    server.files["a.bin"] = DATA
    (tmp_path / ".a.bin.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="cannot be written.*Make room") as caught:
        fetch(Download(server.url("a.bin"), "a.bin", SHA256), tmp_path)
    assert caught.value.errno == 28  # no space left on device
    assert not list(tmp_path.iterdir())


def test_file_without_a_known_hash_is_remembered(server, tmp_path):
    server.files["a.bin"] = DATA
    download = Download(server.url("a.bin"), "a.bin")
    path = fetch(download, tmp_path)
    assert (tmp_path / "a.bin.sha256").read_text().strip() == SHA256
    path.unlink()
    server.files["a.bin"] = b"another file"
    with pytest.raises(ValueError, match=f"instead of {SHA256}"):
        fetch(download, tmp_path)


def test_downloads_are_kept_in_the_folder_of_keras(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "corpora"


def test_command_line_knows_every_corpus():
    assert set(NAMED_CORPORA) == {"stdlib", *PUBLISHED}


def zip_of(entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tar_of(entries):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


LM1B = "1-billion-word-language-modeling-benchmark-r13output"
SPLIT = {"train": b"a b \n", "valid": b"c \n", "test": b"d \n"}
ARCHIVES = {
    "enwik8": zip_of({"enwik8": DATA}),
    "text8": zip_of({"text8": DATA}),
    "wikitext-2": zip_of(
        {f"wikitext-2/wiki.{k}.tokens": v for k, v in SPLIT.items()}
    ),
    "wikitext-103": zip_of(
        {f"wikitext-103/wiki.{k}.tokens": v for k, v in SPLIT.items()}
    ),
    "ptb": tar_of(
        {
            "./simple-examples/data/ptb.char.train.txt": b"no",
            **{
                f"./simple-examples/data/ptb.{k}.txt": v
                for k, v in SPLIT.items()
            },
        }
    ),
    "lm1b": tar_of(
        {
            f"{LM1B}/training-monolingual.tokenized.shuffled/"
            "news.en-00002-of-00100": b"two \n",
            f"{LM1B}/training-monolingual.tokenized.shuffled/"
            "news.en-00001-of-00100": b"one \n",
            f"{LM1B}/heldout-monolingual.tokenized.shuffled/"
            "news.en.heldout-00000-of-00050": b"held \n",
            f"{LM1B}/heldout-monolingual.tokenized.shuffled/"
            "news.en.heldout-00001-of-00050": b"other \n",
        }
    ),
}


@pytest.fixture
def served(server, monkeypatch):
    """Every corpus in small, from a server on this machine."""
    for name, data in ARCHIVES.items():
        (known,) = PUBLISHED[name].downloads
        server.files[name] = data
        found = hashlib.sha256(data).hexdigest()
        download = Download(server.url(name), known.name, found)
        corpus = PublishedCorpus((download,), PUBLISHED[name].read)
        monkeypatch.setitem(PUBLISHED, name, corpus)
    monkeypatch.setattr(published_corpora, "_PG19", server.url("books/"))
    lists = []
    for part in ("train", "validation", "test"):
        server.files[f"{part}_files.txt"] = f"{part}/1.txt\n".encode()
        server.files[f"books/{part}/1.txt"] = f"a {part} book".encode()
        url = server.url(f"{part}_files.txt")
        lists.append(Download(url, f"{part}_files.txt"))
    pg19 = PublishedCorpus(tuple(lists), PUBLISHED["pg19"].read)
    monkeypatch.setitem(PUBLISHED, "pg19", pg19)
    monkeypatch.setattr(published_corpora, "HELD_OUT_BYTES", 50_000)


def parts_of(corpus):
    return [
        [document.data for document in part]
        for part in (corpus.train, corpus.validation, corpus.test)
    ]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_corpus_has_the_parts_of_its_authors(name, served, tmp_path):
    expected = {
        "lm1b": [[b"one \n", b"two \n"], [b"held \n"], [b"held \n"]],
        "pg19": [[f"a {part} book".encode()] for part in
                 ("train", "validation", "test")],
        "enwik8": [[DATA[:-100_000]], [DATA[-100_000:-50_000]],
                   [DATA[-50_000:]]],
    }  # fmt: skip
    expected["text8"] = expected["enwik8"]
    words = [[text] for text in SPLIT.values()]
    for _ in range(2):  # downloaded, then from disk
        corpus = load_corpus(name, folder=tmp_path)
        assert parts_of(corpus) == expected.get(name, words)
        assert corpus.source == name
    sizes = [sum(map(len, part)) for part in parts_of(corpus)]
    assert list(corpus.sizes.values()) == sizes


def test_archive_of_something_else_is_told(server, tmp_path, monkeypatch):
    server.files["ptb"] = tar_of({"readme": b"no"})
    download = Download(server.url("ptb"), "ptb.tgz")
    corpus = PublishedCorpus((download,), PUBLISHED["ptb"].read)
    monkeypatch.setitem(PUBLISHED, "ptb", corpus)
    with pytest.raises(ValueError, match="without data/ptb.train.txt"):
        load_corpus("ptb", folder=tmp_path)


def test_real_splits_are_those_of_the_scripts():
    assert published_corpora.HELD_OUT_BYTES == 5_000_000
    for name, corpus in PUBLISHED.items():
        if name != "pg19":
            assert all(download.file_hash for download in corpus.downloads)
