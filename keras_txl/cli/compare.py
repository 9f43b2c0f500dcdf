"""`keras-txl compare`: the paper's ablations on a text."""

import argparse
import dataclasses
import json
import shlex
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_txl.cli.ablation import COLUMNS
from keras_txl.cli.ablation import DEFAULT_POSITIONS
from keras_txl.cli.ablation import POSITIONS
from keras_txl.cli.ablation import Variant
from keras_txl.cli.ablation import cells
from keras_txl.cli.ablation import figure
from keras_txl.cli.ablation import figure_name
from keras_txl.cli.ablation import markdown
from keras_txl.cli.ablation import summarize
from keras_txl.cli.ablation import variants
from keras_txl.cli.arguments import ModelSize
from keras_txl.cli.arguments import add_model_arguments
from keras_txl.cli.arguments import add_tokenizer
from keras_txl.cli.arguments import check_model_size
from keras_txl.cli.arguments import model_size
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.arguments import positive_number
from keras_txl.cli.given_options import differing
from keras_txl.cli.given_options import record_given
from keras_txl.cli.model_folder import check_corpus
from keras_txl.cli.model_folder import check_tokenizer
from keras_txl.cli.output_folder import check_output
from keras_txl.cli.training_choices import add_training_choices
from keras_txl.cli.training_choices import training_choices
from keras_txl.whole_files import write_whole

HELP = "train with recurrence and without, under several positions; a table"

DESCRIPTION = """\
Repeat the paper's ablations on your own text: train the same model with
recurrence and without, with relative positions, absolute ones and none, each
from several seeds, and print what every model loses on held-out text at the
attention length of its training and at the best one.

All models read the same segments in the same order for the same budget, and
have as many parameters as that of the paper, made up in --intermediate-dim.

The output folder gets
  runs/            one JSON file for each model that is done
  comparison.json  all numbers
  comparison.md    the table
Ctrl-C keeps the models that are done; --resume goes on with the others, and
adds more of --seeds and --position."""

EXAMPLES = """\
examples:
  keras-txl compare book.txt --output ablation --steps 1000
  keras-txl compare texts/ --output ablation --minutes 5 --seeds 5
  keras-txl compare texts/ --output ablation --resume --position none \\
      --position relative_sinusoidal --position relative_clipped
"""

SETTINGS_NAME = "settings.json"
RUNS_NAME = "runs"
SHOWN = ("positions", "recurrence", "as trained", "best", "attn len")
"""Columns of the table in a terminal; the page has all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    record_given(parser)
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        help="text file, folder of text files or glob; a file is a document; "
        "or the name of a corpus, as of train",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the results, new or empty",
    )
    _add_budget(parser)
    _add_variants(parser)
    _add_existing_results(parser)
    add_tokenizer(parser)
    add_model_arguments(parser)
    add_training_choices(parser)
    parser.set_defaults(usage_error=parser.error)


def _add_budget(parser: argparse.ArgumentParser) -> None:
    """How long each model is trained."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps",
        type=positive_integer,
        default=1000,
        metavar="N",
        help="steps of each model",
    )
    length.add_argument(
        "--minutes",
        type=positive_number,
        metavar="X",
        help="time to train each model, instead of --steps: what is cheaper "
        "a step gets more of them",
    )


def _add_variants(parser: argparse.ArgumentParser) -> None:
    """Which models are compared."""
    parser.add_argument(
        "--position",
        choices=POSITIONS,
        action="append",
        help="how positions are told apart; may be given several times "
        f"(default: {', '.join(DEFAULT_POSITIONS)})",
    )
    parser.add_argument(
        "--seeds",
        type=positive_integer,
        default=3,
        metavar="N",
        help="models of each kind, from seeds 0, 1, ...",
    )


def _add_existing_results(parser: argparse.ArgumentParser) -> None:
    """What becomes of an output folder that is not empty."""
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume",
        action="store_true",
        help="go on with the comparison in --output, under its own settings",
    )
    again.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an earlier comparison in --output",
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    check_corpus(options.corpus)
    if Path(options.corpus, "header.json").is_file():
        raise ValueError(
            "A comparison needs a text to hold a part of it out. Received: "
            f"{options.corpus!r}, which is encoded. Pass the text itself."
        )
    check_tokenizer(options.tokenizer)
    if options.resume:
        return
    check_model_size(options)
    if not options.memory_length:
        options.usage_error("--memory-length must be at least 1 to compare")
    check_output(
        options.output,
        options.overwrite,
        "Choose another folder, go on with --resume, or replace it with "
        "--overwrite.",
    )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.cli.ablation_run import AblationTexts
    from keras_txl.cli.ablation_run import run_variant
    from keras_txl.cli.encoded_texts import make_tokenizer
    from keras_txl.cli.encoded_texts import unit_of
    from keras_txl.cli.progress import say

    settings = _settings(options)
    size = ModelSize(**settings["size"])
    tokenizer = make_tokenizer(settings["tokenizer"])
    texts = AblationTexts(options.corpus, size, tokenizer)
    _begin(options, settings, texts.digest)
    unit = unit_of(tokenizer)
    chosen = variants(settings["positions"])
    names = [
        (variant, seed)
        for seed in range(settings["seeds"])
        for variant in chosen
    ]
    results: dict[Variant, list[dict[str, Any]]] = {v: [] for v in chosen}
    try:
        for number, (variant, seed) in enumerate(names):
            place = options.output / RUNS_NAME
            path = place / f"{variant.run_name(seed)}.json"
            if not path.is_file():
                say(f"Model {number + 1} of {len(names)}: {path.stem}.")
                result = run_variant(
                    variant, seed, settings, size, tokenizer, texts
                )
                _write_json(path, result)
            results[variant].append(json.loads(path.read_text("utf-8")))
            _tell_run(path.stem, results[variant][-1], unit)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Models that are done are in {options.output}. Go on with: "
            f"keras-txl compare {shlex.quote(options.corpus)} --output "
            f"{shlex.quote(str(options.output))} --resume"
        ) from None
    rows = [summarize(runs, unit) for runs in results.values()]
    _report(options, settings, rows, texts.told, unit)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What all models have in common, and which models there are."""
    asked = {
        "size": dataclasses.asdict(model_size(options)),
        "choices": dataclasses.asdict(training_choices(options)),
        "steps": None if options.minutes else options.steps,
        "minutes": options.minutes,
        "tokenizer": options.tokenizer and str(options.tokenizer.absolute()),
        "positions": list(dict.fromkeys(options.position or DEFAULT_POSITIONS)),
        "seeds": options.seeds,
    }
    if not options.resume:
        return asked
    path = options.output / SETTINGS_NAME
    if not path.is_file():
        raise FileNotFoundError(
            "--resume needs a comparison that was begun. Received: --output "
            f"{str(options.output)!r}, which has none. Leave --resume out to "
            "begin one."
        )
    settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if settings["size"]["cutoffs"] is not None:  # JSON has made it a list
        settings["size"]["cutoffs"] = tuple(settings["size"]["cutoffs"])
    options.tokenizer = asked["tokenizer"]
    recorded = {**settings, **settings["size"], **settings["choices"]}
    for name in ("seeds", "positions"):  # there may be more
        del recorded[name]
    different = differing(options, recorded)
    if different:
        raise ValueError(
            "--resume goes on under the settings of the comparison. Received: "
            f"{', '.join(different)}. Leave these options out, or begin anew "
            "with --overwrite or another --output."
        )
    more = settings["positions"] + (options.position or [])
    settings["positions"] = list(dict.fromkeys(more))
    if "seeds" in options.given:
        settings["seeds"] = max(settings["seeds"], options.seeds)
    return settings


def _begin(
    options: argparse.Namespace, settings: dict[str, Any], digest: str
) -> None:
    """Write down what is compared; refuse to go on over another text."""
    known = settings.setdefault("text", digest)
    if known != digest:
        raise ValueError(
            "--resume needs the text and the tokenizer of the comparison. "
            f"Received: {options.corpus!r}, of digest {digest} instead of "
            f"{known}. Pass the text as it was, or begin anew with --overwrite."
        )
    runs = options.output / RUNS_NAME
    if not options.resume:
        for path in (
            *runs.glob("*.json"),
            *options.output.glob("comparison.*"),
        ):
            path.unlink()
    runs.mkdir(parents=True, exist_ok=True)
    _write_json(options.output / SETTINGS_NAME, settings)


def _tell_run(name: str, result: Mapping[str, Any], unit: str) -> None:
    from keras_txl.cli.progress import say

    told = ", ".join(
        f"{figure(found['nats_per_token'], unit):.4f} at "
        f"{found['attention_length']}"
        for found in result["evaluations"]
    )
    say(f"{name}: {figure_name(unit)} {told}.")


def _report(
    options: argparse.Namespace,
    settings: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    corpus_told: str,
    unit: str,
) -> None:
    from rich.console import Console
    from rich.table import Table

    from keras_txl.cli.report import versions

    size = settings["size"]
    budget = f"{settings['steps']} steps"
    if settings["minutes"]:
        budget = f"{settings['minutes']:g} minutes"
    facts = {
        "corpus": f"{corpus_told}, text {settings['text']}",
        "training": f"{budget} of {size['batch_size']} x "
        f"{size['segment_length']} {unit}s, memory {size['memory_length']} "
        f"where there is recurrence, seeds 0 to {settings['seeds'] - 1}",
        "made with": versions(),
    }
    numbers = {"settings": settings, "unit": figure_name(unit), "rows": rows}
    _write_json(options.output / "comparison.json", numbers)
    write_whole(
        options.output / "comparison.md", markdown(rows, facts, unit) + "\n"
    )
    table = Table(title=f"{figure_name(unit)} on held-out text")
    for name in SHOWN:
        table.add_column(name, justify="left")
    for row in rows:
        told = dict(zip(COLUMNS, cells(row), strict=True))
        table.add_row(*(told[name] for name in SHOWN))
    Console().print(table)
    print(f"All of it is in {options.output}; see comparison.md there.")


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=2) + "\n")
