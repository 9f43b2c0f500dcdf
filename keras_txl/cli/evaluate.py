"""`keras-txl evaluate`: the loss of texts, for memories of any length."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING
from typing import Any

from keras_txl.cli.arguments import add_evaluation_sizes
from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.model_folder import check_texts
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model
from keras_txl.cli.model_folder import read_documents
from keras_txl.cli.protocol_options import add_dynamic_evaluation
from keras_txl.cli.protocol_options import add_protocol
from keras_txl.cli.protocol_options import chosen_protocols
from keras_txl.cli.wording import counted

if TYPE_CHECKING:
    from keras_txl.evaluation import EvaluationProtocol
    from keras_txl.evaluation import StreamEvaluation

HELP = "measure the loss on texts, for one or more memory lengths"

DESCRIPTION = """\
Read texts as a stream and print the loss in bits per byte and per token, one
line for each memory length. A file is a document: nothing is remembered from
one to the next, and its first token is given, not predicted. Of a model over
words the perplexity is the figure to compare: unknown words cost it little.
The perplexity per word counts runs of bytes between white space. Under the
table stands the protocol that makes each line reproducible."""

EXAMPLES = """\
examples:
  keras-txl evaluate my_model held_out.txt
  keras-txl evaluate my_model texts/ --memory-length 0 --memory-length 256
  keras-txl evaluate my_model texts/ --preset-protocol txl_enwik8_base
  keras-txl evaluate my_model texts/ --segment-length 128 --stride 32
  keras-txl evaluate my_model texts/ --dynamic-learning-rate 0.05
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
    parser.set_defaults(segment_length=None, batch_size=None)
    add_protocol(parser)
    add_dynamic_evaluation(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    parser.set_defaults(usage_error=parser.error)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    if options.stride and (options.memory_length or options.warmup):
        options.usage_error(
            "--stride is for windows without memory: leave --memory-length "
            "and --warmup out"
        )
    if not options.dynamic_learning_rate and (
        options.dynamic_decay or options.dynamic_scales
    ):
        options.usage_error(
            "--dynamic-decay and --dynamic-scales are about the steps of "
            "--dynamic-learning-rate: give it, too"
        )
    if options.dynamic_learning_rate and options.warmup:
        options.usage_error(
            "--warmup reads tokens before another stream scores them, which "
            "dynamic evaluation must not: leave it out, and read one stream "
            "with --batch-size 1"
        )
    find_model(options.model)
    check_texts(options.texts)
    if options.dynamic_scales:
        check_texts([options.dynamic_scales])


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.cli.encoded_texts import encode_documents
    from keras_txl.cli.encoded_texts import target_bytes
    from keras_txl.cli.encoded_texts import target_words
    from keras_txl.cli.encoded_texts import tokenizer_of
    from keras_txl.cli.encoded_texts import unit_of

    chosen = chosen_protocols(options)
    documents = read_documents(options.texts)
    lm = load_model(options.model)
    tokenizer = tokenizer_of(lm)
    ids = encode_documents(tokenizer, documents)
    _check_lengths(options, ids)
    given: dict[str, Any] = {
        "document_bytes": target_bytes(tokenizer, documents, ids),
        "document_words": target_words(tokenizer, documents, ids),
    }
    scales_ids = None
    if options.dynamic_scales:
        scales_ids = encode_documents(
            tokenizer, read_documents([options.dynamic_scales])
        )
    results = []
    for protocol in chosen:
        if scales_ids is not None:
            given["gradient_scales"] = _scales(
                lm, scales_ids, protocol, options.dynamic_epsilon
            )
        results.append(_measure(lm, ids, given, protocol))
    told = {
        "model": str(options.model),
        "documents": len(documents),
        "bytes": sum(map(len, documents)),
        "tokens": sum(map(len, ids)),
        "segment_length": chosen[0].segment_length,
        "batch_size": chosen[0].batch_size,
        "results": results,
    }
    if options.json:
        print(json.dumps(told, indent=2))
        return
    unit = unit_of(tokenizer)
    _print_table(results, _sizes_told(told, unit), unit)


def _check_lengths(options: argparse.Namespace, ids: list[Any]) -> None:
    if max(map(len, ids)) < 2:
        raise ValueError(
            "A text must have at least two tokens (bytes): the first is "
            "given, the second is predicted. Received: "
            f"{', '.join(map(repr, options.texts))}, with no such text. Pass "
            "a longer one."
        )


def _sizes_told(told: dict[str, Any], unit: str) -> str:
    """What was read, as the title of the table."""
    sizes = [
        counted(told["documents"], "document"),
        counted(told["bytes"], "byte"),
        f"segments of {told['segment_length']}",
    ]
    if unit != "byte":
        sizes.insert(2, counted(told["tokens"], unit))
    return ", ".join(sizes)


def _scales(
    lm: Any, ids: list[Any], protocol: EvaluationProtocol, epsilon: float
) -> Any:
    from keras_txl.cli.progress import progress_bar
    from keras_txl.evaluation import gradient_scales

    with progress_bar("Measuring gradients") as update:
        return gradient_scales(
            lm, ids, epsilon=epsilon, progress=update, **vars(protocol)
        )


def _measure(
    lm: Any,
    ids: list[Any],
    given: dict[str, Any],
    protocol: EvaluationProtocol,
) -> dict[str, Any]:
    from keras_txl.cli.progress import progress_bar
    from keras_txl.evaluation import evaluate_stream

    told = "as built"
    if protocol.memory_length is not None:
        told = str(protocol.memory_length)
    with progress_bar(f"Evaluating, memory {told}") as update:
        result = evaluate_stream(
            lm, ids, progress=update, **given, **vars(protocol)
        )
    settings = vars(result.protocol)
    return {
        "memory_length": settings["memory_length"],
        "bits_per_byte": result.bits_per_byte,
        "interval": _interval(result),
        "nats_per_token": result.nats_per_token,
        "bits_per_token": result.bits_per_token,
        "perplexity": result.perplexity,
        "words": result.num_words,
        "word_perplexity": result.word_perplexity,
        "nats": result.nats,
        "targets": result.num_targets,
        "seconds": result.seconds,
        "tokens_per_second": result.tokens_per_second,
        "protocol": settings,
        "protocol_line": result.protocol_line,
    }


def _interval(result: StreamEvaluation) -> dict[str, Any] | None:
    """95 % of the draws of documents; none if there is a single one."""
    from keras_txl.evaluation import bootstrap_interval

    if (result.document_targets > 0).sum() < 2:
        return None
    interval = bootstrap_interval(result, num_resamples=2000)
    return {
        "low": interval.low,
        "high": interval.high,
        "confidence": interval.confidence,
    }


def _print_table(results: list[dict[str, Any]], title: str, unit: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    characters = unit == "character"
    for name in (
        "memory",
        "bits per byte",
        "bits/character" if characters else "nats per token",
        "perplexity",
        "per word",
        "tokens/s",
    ):
        table.add_column(name, justify="right")
    for row in results:
        words = row["word_perplexity"]
        loss = row["bits_per_token" if characters else "nats_per_token"]
        table.add_row(
            str(row["memory_length"]),
            f"{row['bits_per_byte']:.4f}",
            f"{loss:.4f}",
            f"{row['perplexity']:,.3f}",
            "none" if words is None else f"{words:,.4g}",
            f"{row['tokens_per_second']:,.0f}",
        )
    Console().print(table)
    for row in results:
        interval = row["interval"]
        told = "one document: no interval"
        if interval:
            told = (
                f"95 % of bits per byte: {interval['low']:.4f} to "
                f"{interval['high']:.4f}"
            )
        # Not by rich, which would break a line where the screen ends.
        print(f"memory {row['memory_length']}: {told}")
        print(f"protocol: {row['protocol_line']}")
