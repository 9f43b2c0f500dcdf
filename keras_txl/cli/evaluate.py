"""`keras-txl evaluate`: the loss of texts, for memories of any length."""

import argparse
import json
from typing import Any

from keras_txl.cli.arguments import add_evaluation_sizes
from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.model_folder import check_texts
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model
from keras_txl.cli.model_folder import memory_length_of
from keras_txl.cli.model_folder import read_documents
from keras_txl.cli.wording import counted

HELP = "measure the loss on texts, for one or more memory lengths"

DESCRIPTION = """\
Read texts as a stream and print the loss in bits per byte and per token, one
line for each memory length. A file is a document: nothing is remembered from
one to the next, and its first token is given, not predicted. Of a model over
words the perplexity is the figure to compare: unknown words cost it little."""

EXAMPLES = """\
examples:
  keras-txl evaluate my_model held_out.txt
  keras-txl evaluate my_model texts/ --memory-length 0 --memory-length 256
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    parser.add_argument(
        "texts",
        nargs="+",
        metavar="TEXT",
        help="text files, folders of them, or globs",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        action="append",
        metavar="N",
        help="tokens (bytes) kept in memory; may be given several times "
        "(default: as the model was built)",
    )
    add_evaluation_sizes(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    find_model(options.model)
    check_texts(options.texts)


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.cli.encoded_texts import encode_documents
    from keras_txl.cli.encoded_texts import target_bytes
    from keras_txl.cli.encoded_texts import tokenizer_of
    from keras_txl.cli.encoded_texts import unit_of

    documents = read_documents(options.texts)
    lm = load_model(options.model)
    tokenizer = tokenizer_of(lm)
    ids = encode_documents(tokenizer, documents)
    if max(map(len, ids)) < 2:
        raise ValueError(
            "A text must have at least two tokens (bytes): the first is "
            "given, the second is predicted. Received: "
            f"{', '.join(map(repr, options.texts))}, with no such text. Pass "
            "a longer one."
        )
    sizes = target_bytes(tokenizer, documents, ids)
    lengths = options.memory_length or [memory_length_of(lm)]
    results = [_measure(lm, ids, sizes, n, options) for n in lengths]
    num_bytes = sum(len(document) for document in documents)
    told = {
        "model": str(options.model),
        "documents": len(documents),
        "bytes": num_bytes,
        "tokens": sum(map(len, ids)),
        "segment_length": options.segment_length,
        "batch_size": options.batch_size,
        "results": results,
    }
    if options.json:
        print(json.dumps(told, indent=2))
        return
    sizes_told = [
        counted(len(documents), "document"),
        counted(num_bytes, "byte"),
        f"segments of {options.segment_length}",
    ]
    if unit_of(tokenizer) != "byte":
        tokens = counted(sum(map(len, ids)), unit_of(tokenizer))
        sizes_told.insert(2, tokens)
    _print_table(results, ", ".join(sizes_told))


def _measure(
    lm: Any,
    ids: list[Any],
    sizes: list[int],
    memory_length: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    from keras_txl.cli.progress import progress_bar
    from keras_txl.evaluation import evaluate_stream

    with progress_bar(f"Evaluating, memory {memory_length}") as update:
        result = evaluate_stream(
            lm,
            ids,
            segment_length=options.segment_length,
            batch_size=options.batch_size,
            memory_length=memory_length,
            document_bytes=sizes,
            progress=update,
        )
    return {
        "memory_length": memory_length,
        "bits_per_byte": result.bits_per_byte,
        "nats_per_token": result.nats_per_token,
        "perplexity": result.perplexity,
        "nats": result.nats,
        "targets": result.num_targets,
        "tokens_per_second": result.tokens_per_second,
    }


def _print_table(results: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for name in (
        "memory",
        "bits per byte",
        "nats per token",
        "perplexity",
        "tokens/s",
    ):
        table.add_column(name, justify="right")
    for row in results:
        table.add_row(
            str(row["memory_length"]),
            f"{row['bits_per_byte']:.4f}",
            f"{row['nats_per_token']:.4f}",
            f"{row['perplexity']:,.3f}",
            f"{row['tokens_per_second']:,.0f}",
        )
    Console().print(table)
