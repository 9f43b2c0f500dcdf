"""`keras-txl score`: the loss of each of several texts."""

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import add_evaluation_sizes
from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model
from keras_txl.cli.model_folder import memory_length_of

HELP = "rate each of several texts"

DESCRIPTION = """\
Print the loss of each text in nats, and in bits per byte and per word, with a
memory that starts empty for each. Lower is likelier. The first byte of a text
is given, not predicted, unless a context comes before it; a text of which
nothing is predicted has no loss per byte."""

EXAMPLES = """\
examples:
  keras-txl score my_model "the cat sat" "cat the sat"
  keras-txl score my_model --file sentences.txt --json
  some_program | keras-txl score my_model --file - --whole
  keras-txl score my_model --context "It rains. " --candidates n_best.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="texts themselves"
    )
    parser.add_argument(
        "--file",
        action="append",
        metavar="FILE",
        help="file with one text a line, empty lines left out; - is standard "
        "input; may be given several times",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="a --file is one text, with its line ends",
    )
    parser.add_argument(
        "--candidates",
        metavar="FILE",
        help="file with one candidate a line, as --file, printed likeliest "
        "first with the number of its line",
    )
    parser.add_argument(
        "--context",
        metavar="TEXT",
        help="text before each text; read once, and no part of the loss",
    )
    parser.add_argument(
        "--per-token",
        action="store_true",
        help="rank candidates by loss per token, so that long ones do not "
        "lose to short ones",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens (bytes) kept in memory (default: as the model was built)",
    )
    add_evaluation_sizes(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    parser.set_defaults(usage_error=parser.error)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    given = [options.texts, options.file, options.candidates]
    if sum(map(bool, given)) != 1:
        options.usage_error("give either texts or --file or --candidates")
    if options.whole and not options.file:
        options.usage_error("--whole is about --file")
    if options.per_token and not options.candidates:
        options.usage_error("--per-token is about --candidates")
    if options.context == "":
        options.usage_error("--context must hold some text")
    find_model(options.model)


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.cli.progress import progress_bar
    from keras_txl.evaluation import score_texts

    rows = _read_texts(options)
    lm = load_model(options.model, options.memory_length)
    if options.context and not memory_length_of(lm):
        raise ValueError(
            "--context needs memory to be kept in. Received: a model that "
            "keeps none. Pass --memory-length N, as many as the context and a "
            "text have tokens (bytes)."
        )
    with progress_bar("Scoring") as update:
        scores = score_texts(
            lm,
            [row["text"] for row in rows],
            options.context,
            segment_length=options.segment_length,
            batch_size=options.batch_size,
            progress=update,
        )
    for index, row in enumerate(rows):
        row |= _numbers(scores, index)
        if "file" in row:  # its text would not fit a table
            del row["text"]
        else:
            row["text"] = _printable(row["text"])
    if options.candidates:
        rank_by = "nats_per_token" if options.per_token else "nats"
        rows.sort(key=lambda row: (row[rank_by] is None, row[rank_by]))
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        _print_table(rows, options.per_token)


def _numbers(scores: Any, index: int) -> dict[str, float | int | None]:
    numbers: dict[str, float | int | None] = {}
    for name in ("nats", "nats_per_token", "bits_per_byte", "bits_per_word"):
        value = float(getattr(scores, name)[index])
        numbers[name] = None if math.isnan(value) else value
    for name in ("tokens", "bytes", "words"):
        numbers[name] = int(getattr(scores, f"num_{name}")[index])
    return numbers


def _print_table(rows: list[dict[str, Any]], per_token: bool) -> None:
    """Columns between tabs, what names the text last."""
    columns = ["nats", *(["nats_per_token"] if per_token else [])]
    columns += ["bits_per_byte", "bits_per_word", "bytes"]
    columns += [name for name in ("line", "file", "text") if name in rows[0]]
    print("\t".join(columns).replace("_", " "))
    for row in rows:
        print("\t".join(_cell(row[name]) for name in columns))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}"
    return " ".join(str(value).splitlines()).replace("\t", " ")


def _read_texts(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Texts as rows of the result, with their line or file."""
    from keras_txl.cli.progress import say

    rows: list[dict[str, Any]]
    if options.texts:
        for name in filter(os.path.isfile, options.texts):
            say(f"Scoring the words {name!r}; to score the file, pass --file.")
        rows = [{"text": text} for text in options.texts]
    elif options.candidates:
        lines = _read("--candidates", options.candidates).splitlines()
        rows = [
            {"line": number, "text": _text(line)}
            for number, line in enumerate(lines, 1)
            if line
        ]
    elif options.whole:
        rows = [
            {"file": name, "text": _text(_read("--file", name))}
            for name in options.file
        ]
    else:
        rows = [
            {"text": _text(line)}
            for name in options.file
            for line in _read("--file", name).splitlines()
            if line
        ]
    if not rows:
        raise ValueError(
            "There must be at least one text. Received: files without any, "
            f"{options.candidates or ', '.join(options.file)}. Put one text "
            "on a line."
        )
    return rows


def _read(option: str, name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise type(error)(
            f"{option} cannot be read. Received: {name!r} ({error.strerror}). "
            "Pass a text file with one text a line."
        ) from error


def _text(content: bytes) -> str:
    # As the shell gives arguments, whatever the encoding.
    return content.decode("utf-8", "surrogateescape")


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
