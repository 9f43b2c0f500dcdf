"""`keras-txl data`: corpora as files of token ids."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import add_tokenizer
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.model_folder import NAMED_CORPORA
from keras_txl.cli.model_folder import check_corpus
from keras_txl.cli.model_folder import check_tokenizer

HELP = "encode a corpus once, or check an encoded one"

DESCRIPTION = """\
encode: turn a corpus into token ids on disk, in parallel and at bounded
memory, for train and for keras_txl.data.TokenFile. A text file, compressed or
not, is a document; so is each row of JSON lines and Parquet and each file of
an archive. Run again after an interruption it goes on where it was.
check: read an encoded corpus and compare its checksums."""

EXAMPLES = """\
examples:
  keras-txl data encode corpus/ --tokenizer my_pieces --output my_ids
  keras-txl data encode lm1b --part test --tokenizer words --output test_ids
  keras-txl data encode "pages/*.jsonl.gz" --text-column body --output my_ids
  keras-txl data check my_ids
  keras-txl train my_ids --tokenizer my_pieces --output my_model
"""

SMALL_BYTES = 2**26
"""Below this, starting processes takes longer than they save."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument(
        "action", choices=["encode", "check"], help="what to do"
    )
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        help="text file, folder of text files, glob, or name of a corpus as "
        "for train; to check: a folder that encode wrote",
    )
    parser.add_argument(
        "--part",
        choices=["train", "validation", "test"],
        default="train",
        help="which part of a corpus that is given by its name",
    )
    add_tokenizer(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for the token ids; needed to encode",
    )
    parser.add_argument(
        "--text-column",
        default="text",
        metavar="NAME",
        help="column of JSON lines and Parquet that holds the text",
    )
    parser.add_argument(
        "--workers",
        type=positive_integer,
        metavar="N",
        help="processes that encode (default: one a CPU core, one for small "
        "corpora)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an encoded corpus in --output",
    )
    parser.set_defaults(usage_error=parser.error)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    if options.action == "check":
        return
    if options.output is None:
        options.usage_error("encode needs --output")
    check_corpus(options.corpus)
    if options.part != "train" and options.corpus not in NAMED_CORPORA:
        options.usage_error(
            "--part is for a corpus given by its name: leave it out, or pass "
            "the files of that part"
        )
    check_tokenizer(options.tokenizer)
    if (options.output / "header.json").exists() and not options.overwrite:
        raise FileExistsError(
            "--output must not hold an encoded corpus. Received: "
            f"{str(options.output)!r}. Choose another folder, or replace it "
            "with --overwrite."
        )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.data import TokenFile

    if options.action == "check":
        tokens = TokenFile(options.corpus, verify=True)
    else:
        tokens = _encode(options)
    header = tokens.header
    print(f"documents: {tokens.num_documents:,}")
    print(f"tokens: {tokens.num_tokens:,} of {header['vocabulary_size']:,}")
    print(f"bytes of text: {header['num_bytes']:,}")
    print(f"type: {tokens.ids.dtype.name}")
    print(f"tokenizer: {header['settings']['tokenizer']}")


def _encode(options: argparse.Namespace) -> Any:
    import functools

    from keras_txl.cli.encoded_texts import make_encoder
    from keras_txl.cli.encoded_texts import make_tokenizer
    from keras_txl.cli.progress import progress_bar
    from keras_txl.data import encode_corpus

    tokenizer = make_tokenizer(options.tokenizer)
    texts, files = _texts(options)
    total = sum(size for _, size, _ in files)
    if not total:
        raise ValueError(
            f"There is no text to encode. Received: {options.corpus!r}, which "
            "is empty. Pass a file or a folder that holds text."
        )
    workers = options.workers or (
        1 if total < SMALL_BYTES else os.cpu_count() or 1
    )
    with progress_bar("Encoding") as update:
        return encode_corpus(
            texts,
            options.output,
            make_encoder=functools.partial(make_encoder, options.tokenizer),
            vocabulary_size=tokenizer.vocabulary_size(),
            num_workers=workers,
            settings={
                "tokenizer": type(tokenizer).__name__,
                "tokenizer_sha256": tokenizer.fingerprint,
                "text_column": options.text_column,
                "files": files,
            },
            progress=lambda done: update(done, max(done, total)),
        )


def _texts(
    options: argparse.Namespace,
) -> tuple[Iterable[Any], list[tuple[str, int, int]]]:
    """The texts, and what they are read from: names, sizes, times of change."""
    from keras_txl.data import load_corpus
    from keras_txl.data import read_text_pieces
    from keras_txl.data.text_files import find_files

    source = options.corpus
    if source in NAMED_CORPORA:
        corpus = load_corpus(source)
        documents = getattr(corpus, options.part)
        size = corpus.sizes[options.part]
        texts = (document.data for document in documents)
        return texts, [(f"{source}/{options.part}", size, 0)]
    root, names, _ = find_files(source, [])
    told = [(name, os.stat(root / name)) for name in names]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in told]
    return read_text_pieces(source, options.text_column), files
