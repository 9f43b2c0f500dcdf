"""The corpora of the paper by name: where they are, how they are split.

Each rule has its source: `getdata.sh`, `prep_text8.py` and
`pytorch/data_utils.py` of kimiyoung/transformer-xl, and `prep_enwik8.py` of
salesforce/awd-lstm-lm, which the first calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from keras_txl.data.downloads import Download
from keras_txl.data.downloads import fetch
from keras_txl.data.text_files import Document
from keras_txl.data.text_files import FileDocuments
from keras_txl.data.text_sources import open_documents

HELD_OUT_BYTES = 5_000_000
"""`num_test_chars` of prep_enwik8.py and prep_text8.py."""

_WIKITEXT = "https://s3.amazonaws.com/research.metamind.io/wikitext/"
_LM1B = "1-billion-word-language-modeling-benchmark-r13output"
_PG19 = "https://storage.googleapis.com/deepmind-gutenberg/"
_PG19_LISTS = "https://huggingface.co/datasets/deepmind/pg19/resolve/main/data/"

Parts = dict[str, Any]


@dataclass(frozen=True)
class PublishedCorpus:
    """A corpus that others have split.

    Attributes:
        downloads: files to fetch.
        read: makes the parts from the paths of the files.
        tokenizer: arguments of `train_tokenizer` for the tokens that the
            released code uses.
    """

    downloads: tuple[Download, ...]
    read: Callable[[list[Path]], Parts]
    tokenizer: dict[str, Any] = field(default_factory=dict)


def published_parts(name: str, folder: Path) -> Parts:
    """Fetch a corpus, unless it is there, and read its parts.

    Args:
        name: one of `PUBLISHED`.
        folder: where downloads are kept, a folder a corpus.

    Returns:
        Documents of train, validation and test.
    """
    corpus = PUBLISHED[name]
    paths = [fetch(download, folder / name) for download in corpus.downloads]
    return corpus.read(paths)


def _cut(entry: str) -> Callable[[list[Path]], Parts]:
    """The last 5 MB are the test, the 5 MB before them the validation."""

    def read(paths: list[Path]) -> Parts:
        (data,) = _entries(paths[0], [entry])
        held_out = HELD_OUT_BYTES
        parts = {
            "train": data[: -2 * held_out],
            "validation": data[-2 * held_out : -held_out],
            "test": data[-held_out:],
        }
        return {
            part: (Document(f"{entry}/{part}", text),)
            for part, text in parts.items()
        }

    return read


def _named(entries: dict[str, str]) -> Callable[[list[Path]], Parts]:
    """One file of an archive for each part."""

    def read(paths: list[Path]) -> Parts:
        texts = _entries(paths[0], list(entries.values()))
        return {
            part: (Document(entry, text),)
            for (part, entry), text in zip(entries.items(), texts, strict=True)
        }

    return read


def _entries(archive: Path, wanted: list[str]) -> list[bytes]:
    """Files of an archive, by the ends of their names."""
    found: dict[str, bytes] = {}
    for name, chunks in open_documents(archive, archive.name):
        for entry in wanted:
            if name.endswith(f"/{entry}"):
                found[entry] = b"".join(chunks)
        if len(found) == len(wanted):
            break
    missing = [entry for entry in wanted if entry not in found]
    if missing:
        raise ValueError(
            "The archive must hold the files of the corpus. Received: "
            f"{str(archive)!r} without {', '.join(missing)}. Remove it to "
            "download it anew."
        )
    return [found[entry] for entry in wanted]


def _read_lm1b(paths: list[Path]) -> Parts:
    """All training shards; one held-out shard, for both other parts.

    `getdata.sh` writes the same shard, 00000 of 50, to valid.txt and test.txt.
    """
    folder = unpack(paths[0])
    train = sorted(
        folder.glob("**/training-monolingual.tokenized.shuffled/news.en-*")
    )
    held_out = sorted(
        folder.glob(
            "**/heldout-monolingual.tokenized.shuffled/"
            "news.en.heldout-00000-of-00050"
        )
    )
    return {
        "train": FileDocuments(folder, train),
        "validation": FileDocuments(folder, held_out),
        "test": FileDocuments(folder, held_out),
    }


def unpack(archive: Path) -> Path:
    """Unpack an archive beside itself, once.

    Args:
        archive: a `.tar.gz` file.

    Returns:
        The folder with its files.
    """
    import shutil
    import tarfile

    folder = archive.with_name(f"{archive.name}.unpacked")
    if folder.is_dir():
        return folder
    stage = archive.with_name(f".{archive.name}.unpacked")
    shutil.rmtree(stage, ignore_errors=True)
    try:
        with tarfile.open(archive) as file:
            file.extractall(stage, filter="data")
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    stage.rename(folder)
    return folder


def _read_pg19(paths: list[Path]) -> Parts:
    """The books that the three lists name, each a file of its own."""
    folder = paths[0].parent
    parts = {}
    for part, listed in zip(
        ("train", "validation", "test"), paths, strict=True
    ):
        names = listed.read_text(encoding="utf-8").split()
        books = [
            fetch(Download(_PG19 + name, name.replace("/", "_")), folder)
            for name in names
        ]
        parts[part] = FileDocuments(folder, books)
    return parts


PUBLISHED: dict[str, PublishedCorpus] = {
    "enwik8": PublishedCorpus(
        (
            Download(
                "http://mattmahoney.net/dc/enwik8.zip",
                "enwik8.zip",
                "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
            ),
        ),
        _cut("enwik8"),
        {"kind": "byte"},
    ),
    "text8": PublishedCorpus(
        (
            Download(
                "http://mattmahoney.net/dc/text8.zip",
                "text8.zip",
                "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
            ),
        ),
        _cut("text8"),
        {"kind": "character"},
    ),
    "wikitext-103": PublishedCorpus(
        (
            Download(
                f"{_WIKITEXT}wikitext-103-v1.zip",
                "wikitext-103-v1.zip",
                "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
            ),
        ),
        _named(
            {
                "train": "wiki.train.tokens",
                "validation": "wiki.valid.tokens",
                "test": "wiki.test.tokens",
            }
        ),
        {"kind": "word"},
    ),
    "wikitext-2": PublishedCorpus(
        (
            Download(
                f"{_WIKITEXT}wikitext-2-v1.zip",
                "wikitext-2-v1.zip",
                "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
            ),
        ),
        _named(
            {
                "train": "wiki.train.tokens",
                "validation": "wiki.valid.tokens",
                "test": "wiki.test.tokens",
            }
        ),
        {"kind": "word"},
    ),
    "ptb": PublishedCorpus(
        (
            Download(
                "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
                "simple-examples.tgz",
                # MD5: no SHA-256 of this file is published.
                "30177ea32e27c525793142b6bf2c8e2d",
            ),
        ),
        _named(
            {
                "train": "data/ptb.train.txt",
                "validation": "data/ptb.valid.txt",
                "test": "data/ptb.test.txt",
            }
        ),
        {"kind": "word", "lowercase": True},
    ),
    "lm1b": PublishedCorpus(
        (
            Download(
                f"http://www.statmt.org/lm-benchmark/{_LM1B}.tar.gz",
                f"{_LM1B}.tar.gz",
                "01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e",
            ),
        ),
        _read_lm1b,
        {
            "kind": "word",
            "unknown_token": "<UNK>",
            "end_of_line_token": "<S>",
            "start_of_line_token": "<S>",
        },
    ),
    "pg19": PublishedCorpus(
        tuple(
            Download(f"{_PG19_LISTS}{part}_files.txt", f"{part}_files.txt")
            for part in ("train", "validation", "test")
        ),
        _read_pg19,
        {"kind": "sentence-piece", "vocabulary_size": 32_000},
    ),
}
"""Corpora by name."""
