"""`keras-txl inspect`: what a model folder holds, and what it does."""

import argparse
import json
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import DEFAULT_SIZE
from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.model_folder import check_texts
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model
from keras_txl.cli.model_folder import memory_length_of
from keras_txl.cli.model_folder import read_documents
from keras_txl.cli.output_folder import check_output

HELP = "show what a model holds, and what its memory does to a text"

DESCRIPTION = """\
Show what a model folder holds: configuration, number of parameters, size of
the memory of one stream, receptive field, tokenizer and versions.

With --text, read texts with memory and without, and write a report to
--output: a page to open in a browser (index.html, which loads nothing else),
all numbers (report.json), and each figure as a PNG file where matplotlib is
installed. It shows the text coloured by what memory changes, loss by length
of memory and by place in the segment, where heads look, the four terms of
the scores and the matrix W_kR, norms and drift of memory, and the effective
context length."""

EXAMPLES = """\
examples:
  keras-txl inspect my_model
  keras-txl inspect my_model --json
  keras-txl inspect my_model --text held_out.txt --output my_report
  keras-txl inspect my_model --text texts/ --tokens 2000 --output my_report
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    group = parser.add_argument_group("report")
    group.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="text file, folder of them, or glob, a file a document; may be "
        "given several times",
    )
    group.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for the report, new or empty",
    )
    group.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an earlier report in --output",
    )
    group.add_argument(
        "--tokens",
        type=positive_integer,
        default=8192,
        metavar="N",
        help="read so many tokens (bytes) at most, in the order of the texts: "
        "the time grows with it, and the noise falls",
    )
    group.add_argument(
        "--segment-length",
        type=positive_integer,
        default=DEFAULT_SIZE.segment_length,
        metavar="N",
        help="tokens (bytes) read in one call",
    )
    group.add_argument(
        "--memory-length",
        type=positive_integer,
        metavar="N",
        help="tokens (bytes) kept in memory (default: as the model was built)",
    )
    parser.set_defaults(usage_error=parser.error)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    if (options.text is None) != (options.output is None):
        options.usage_error("--text and --output go together")
    if options.text and options.json:
        options.usage_error(
            "--json is about the table: a report has its numbers in report.json"
        )
    find_model(options.model)
    if options.text:
        check_texts(options.text)
        check_output(
            options.output,
            options.overwrite,
            "Choose another folder, or replace an earlier report with "
            "--overwrite.",
        )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    lm = load_model(options.model)
    facts = describe_model(lm)
    facts = {"folder": str(find_model(options.model)), **facts}
    if options.text:
        _report(options, lm, facts)
        return
    if options.json:
        print(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    configuration = facts.pop("configuration")
    table = Table(show_header=False)
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), shown)
    table.add_section()
    for name, value in configuration.items():
        table.add_row(name, str(value))
    Console().print(table)


def _report(
    options: argparse.Namespace, lm: Any, facts: dict[str, Any]
) -> None:
    from keras_txl.cli.encoded_texts import tokenizer_of
    from keras_txl.cli.encoded_texts import unit_of
    from keras_txl.cli.progress import progress_bar
    from keras_txl.report import measure_reading
    from keras_txl.report import write_report
    from keras_txl.report.page import verdict

    tokenizer = tokenizer_of(lm)
    memory_length = options.memory_length or memory_length_of(lm)
    if not memory_length:
        raise ValueError(
            "A report compares memory with none. Received: a model that keeps "
            "none. Pass --memory-length N."
        )
    documents = _first_tokens(options, tokenizer)
    with progress_bar("Reading") as update:
        found = measure_reading(
            lm,
            documents,
            segment_length=options.segment_length,
            memory_length=memory_length,
            unit=unit_of(tokenizer),
            progress=update,
        )
    drawn = write_report(
        options.output,
        found,
        title=f"{options.model.resolve().name} reads "
        f"{', '.join(Path(text).name for text in options.text[:3])}",
        facts=facts,
    )
    print(verdict(found))
    if not drawn:
        print(
            "There are no PNG files: they need the package matplotlib. "
            "Install it with: pip install 'keras-txl[plots]'"
        )
    print(f"All of it is in {options.output}; open index.html there.")


def _first_tokens(options: argparse.Namespace, tokenizer: Any) -> list[Any]:
    """Ids of the documents, `--tokens` together at most."""
    from keras_txl.cli.encoded_texts import encode_documents

    left = options.tokens
    documents = []
    for data in read_documents(options.text):
        (ids,) = encode_documents(tokenizer, [data])
        documents.append(ids[:left])
        left -= len(documents[-1])
        if not left:
            break
    documents = [ids for ids in documents if len(ids) > 1]
    if not documents:
        raise ValueError(
            "A text must have at least two tokens (bytes): the first is "
            "given, the second is predicted. Received: "
            f"{', '.join(map(repr, options.text))} and --tokens "
            f"{options.tokens}, which leave none. Pass a longer text, or more "
            "tokens."
        )
    return documents


def describe_model(lm: Any) -> dict[str, Any]:
    """Facts about a model, as JSON can hold them.

    Args:
        lm: a `TransformerXLCausalLM`.

    Returns:
        Dict of names and values; sizes of the memory in bytes a stream,
        the receptive field in tokens.
    """
    import math

    import keras
    import keras_hub

    import keras_txl

    backbone = lm.backbone
    states = lm.initial_memory(1)["states"]
    item = keras.ops.convert_to_numpy(states).dtype.itemsize
    memory_length = memory_length_of(lm)
    tokenizer = getattr(lm.preprocessor, "tokenizer", None)
    return {
        "parameters": count_parameters(lm),
        "memory_length": memory_length,
        "memory_bytes_per_stream": math.prod(states.shape) * item,
        "receptive_field": backbone.num_layers * memory_length,
        "tokenizer": type(tokenizer).__name__ if tokenizer else None,
        "vocabulary_size": backbone.vocabulary_size,
        "keras_txl_version": keras_txl.__version__,
        "keras_version": keras.__version__,
        "keras_hub_version": keras_hub.__version__,
        "backend": keras.backend.backend(),
        "configuration": {
            name: value
            for name, value in backbone.get_config().items()
            if isinstance(value, (int, float, str, bool, type(None)))
        },
    }
