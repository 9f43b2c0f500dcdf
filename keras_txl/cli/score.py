"""`keras-txl score`: the loss of each of several texts."""

import argparse
import json
import math
from pathlib import Path

from keras_txl.cli.arguments import DEFAULT_SIZE
from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model
from keras_txl.cli.model_folder import token_ids

HELP = "rate each of several texts"

DESCRIPTION = """\
Print the loss of each text in nats, and in bits per byte, with a memory that
starts empty for each. Lower is likelier. The first byte of a text is given,
not predicted; a text of one byte has no loss."""

EXAMPLES = """\
examples:
  keras-txl score my_model "the cat sat" "cat the sat"
  keras-txl score my_model --file sentences.txt --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts")
    parser.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        help="file with one text a line; empty lines are left out",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens (bytes) kept in memory (default: as the model was built)",
    )
    parser.add_argument(
        "--segment-length",
        type=positive_integer,
        default=DEFAULT_SIZE.segment_length,
        metavar="N",
        help="tokens (bytes) read in one call",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    parser.set_defaults(usage_error=parser.error)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    if bool(options.texts) == (options.file is not None):
        options.usage_error("give either texts or --file")
    find_model(options.model)


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.cli.progress import progress_bar
    from keras_txl.evaluation import evaluate_stream

    texts = _texts(options)
    lm = load_model(options.model)
    with progress_bar("Scoring") as update:
        # One stream: no text is cut, so each starts with nothing remembered
        # and keeps its memory to its end.
        result = evaluate_stream(
            lm,
            token_ids(lm, texts),
            segment_length=options.segment_length,
            batch_size=1,
            memory_length=options.memory_length,
            progress=update,
        )
    rows = [
        {
            "nats": float(nats),
            "bits_per_byte": float(nats / count / math.log(2))
            if count
            else None,
            "bytes": len(text),
            "text": text.decode("utf-8", "replace"),
        }
        for nats, count, text in zip(
            result.document_nats, result.document_targets, texts, strict=True
        )
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print("nats\tbits per byte\tbytes\ttext")
    for row in rows:
        bits = row["bits_per_byte"]
        told = "-" if bits is None else f"{bits:.4f}"
        print(f"{row['nats']:.4f}\t{told}\t{row['bytes']}\t{row['text']}")


def _texts(options: argparse.Namespace) -> list[bytes]:
    if options.file is None:
        # As they came from the shell, whatever the encoding.
        return [
            text.encode("utf-8", "surrogateescape") for text in options.texts
        ]
    try:
        lines = options.file.read_bytes().splitlines()
    except OSError as error:
        raise type(error)(
            f"--file cannot be read. Received: {str(options.file)!r} "
            f"({error.strerror}). Pass a text file with one text a line."
        ) from error
    texts = [line for line in lines if line]
    if not texts:
        raise ValueError(
            "--file must hold at least one text. Received: "
            f"{str(options.file)!r}, which has none. Put one text on a line."
        )
    return texts
