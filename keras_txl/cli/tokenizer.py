"""`keras-txl tokenizer train`: a tokenizer from a text."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.model_folder import NAMED_CORPORA
from keras_txl.cli.model_folder import check_corpus
from keras_txl.cli.output_folder import check_output
from keras_txl.export.staging import staged_folder

HELP = "make a tokenizer from a text"

DESCRIPTION = """\
Make a tokenizer from a text, or from the vocabulary of another program, and
save it in a folder that train --tokenizer takes. Kinds:
  byte            UTF-8 bytes, the default of train; needs no training
  character       the characters of the text, such as the 27 of text8
  word            words between white space, as WikiText and Penn Treebank
  byte-pair       merged bytes; needs the package tokenizers
  sentence-piece  SentencePiece; needs the package sentencepiece"""

EXAMPLES = """\
examples:
  keras-txl tokenizer train --kind word --corpus wiki.txt --output my_words
  keras-txl tokenizer train --kind byte-pair --vocabulary-size 8000 \\
      --corpus texts/ --output my_pieces
  keras-txl tokenizer train --kind word --vocabulary vocab.txt --output words
"""

# Not imported from the tokenizers: help must come at once.
KINDS = ("byte", "character", "word", "byte-pair", "sentence-piece")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("action", choices=["train"], help="what to do")
    parser.add_argument(
        "--kind", choices=KINDS, required=True, help="kind of tokens"
    )
    _add_sources(parser)
    _add_output(parser)
    _add_vocabulary_options(parser)
    _add_line_options(parser)
    parser.set_defaults(usage_error=parser.error)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    """What the tokenizer is made from."""
    parser.add_argument(
        "--corpus",
        action="append",
        metavar="PATH",
        help="text file, folder of text files, glob, or name of a corpus (its "
        "training part); may be given several times",
    )
    parser.add_argument(
        "--vocabulary",
        type=Path,
        metavar="FILE",
        help="words or characters instead of --corpus: a JSON list, a text "
        "with a word a line, or vocab.pkl or vocab.bin of Hugging Face's "
        "TransfoXLTokenizer",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Where it is saved."""
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the tokenizer, new or empty",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an earlier tokenizer in --output",
    )


def _add_vocabulary_options(parser: argparse.ArgumentParser) -> None:
    """What becomes a token, and what stands for the rest."""
    parser.add_argument(
        "--vocabulary-size",
        type=positive_integer,
        metavar="N",
        help="largest number of tokens (default: all characters or words)",
    )
    parser.add_argument(
        "--min-count",
        type=positive_integer,
        default=1,
        metavar="N",
        help="leave out characters or words that come less often",
    )
    parser.add_argument(
        "--unknown-token",
        metavar="TOKEN",
        help="stands for characters or words that are not in the vocabulary "
        "(default: <unk> for words)",
    )


def _add_line_options(parser: argparse.ArgumentParser) -> None:
    """How a tokenizer of words reads a line."""
    parser.add_argument(
        "--end-of-line",
        metavar="TOKEN",
        help="word that ends a line (default: <eos>)",
    )
    parser.add_argument(
        "--start-of-line",
        metavar="TOKEN",
        help="word that begins a line, as <S> of the One Billion Word "
        "benchmark, where --end-of-line is the same",
    )
    parser.add_argument(
        "--lowercase", action="store_true", help="lower-case words"
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    listed = options.kind in ("character", "word")
    if options.vocabulary and not listed:
        options.usage_error("--vocabulary is about characters and words")
    if bool(options.corpus) == bool(options.vocabulary) and (
        options.kind != "byte" or options.vocabulary
    ):
        options.usage_error("give either --corpus or --vocabulary")
    if options.unknown_token and not listed:
        options.usage_error("--unknown-token is about characters and words")
    if options.kind != "word" and (
        options.end_of_line or options.start_of_line or options.lowercase
    ):
        options.usage_error(
            "--end-of-line, --start-of-line and --lowercase are about words"
        )
    if options.kind in ("byte-pair", "sentence-piece"):
        if options.vocabulary_size is None:
            options.usage_error(
                f"--kind {options.kind} needs --vocabulary-size"
            )
    for source in options.corpus or []:
        check_corpus(source)
    check_output(
        options.output,
        options.overwrite,
        "Choose another folder, or replace it with --overwrite.",
    )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    tokenizer = _make(options)
    with staged_folder(options.output) as stage:
        tokenizer.save_to_preset(str(stage))
    print(f"kind: {options.kind}")
    print(f"tokens: {tokenizer.vocabulary_size():,}")
    print(f"tokenizer: {options.output}")


def _make(options: argparse.Namespace) -> Any:
    from keras_txl.tokenizers import train_tokenizer

    arguments = {
        "unknown_token": options.unknown_token,
        "end_of_line_token": options.end_of_line,
        "start_of_line_token": options.start_of_line,
        "lowercase": options.lowercase or None,
    }
    given = {k: v for k, v in arguments.items() if v is not None}
    if options.vocabulary:
        return _read(options, given)
    return train_tokenizer(
        options.kind,
        _texts(options.corpus or []),
        vocabulary_size=options.vocabulary_size,
        min_count=options.min_count,
        **given,
    )


def _read(options: argparse.Namespace, given: dict[str, Any]) -> Any:
    from keras_txl.tokenizers import TransformerXLCharacterTokenizer
    from keras_txl.tokenizers import TransformerXLWordTokenizer
    from keras_txl.tokenizers import read_vocabulary

    words = read_vocabulary(options.vocabulary)
    if options.kind == "character":
        return TransformerXLCharacterTokenizer(words, **given)
    return TransformerXLWordTokenizer(words, **given)


def _texts(sources: list[str]) -> Iterator[bytes]:
    from keras_txl.data import load_corpus
    from keras_txl.data import read_text_pieces

    for source in sources:
        if source in NAMED_CORPORA:
            corpus = load_corpus(source)
            yield from (document.data for document in corpus.train)
        else:
            yield from (piece.data for piece in read_text_pieces(source))
