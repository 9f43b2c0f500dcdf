"""`keras-txl quickstart`: train, see what memory buys, write, save, reload."""

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import ModelSize
from keras_txl.cli.arguments import add_model_arguments
from keras_txl.cli.arguments import add_seed
from keras_txl.cli.arguments import add_tokenizer
from keras_txl.cli.arguments import check_model_size
from keras_txl.cli.arguments import model_size
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.arguments import positive_number
from keras_txl.cli.model_folder import MODEL_NAME
from keras_txl.cli.model_folder import check_corpus
from keras_txl.cli.model_folder import check_tokenizer
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.output_folder import check_output
from keras_txl.cli.wording import counted
from keras_txl.export.staging import staged_folder

HELP = "train a small model and see what memory buys, in three minutes"

DESCRIPTION = """\
Train a byte-level Transformer-XL, measure held-out text with memories of
several lengths next to xz and bzip2, write a sample, save the model, load it
in a new process and prove that it has the same loss.

The text is the source code of Python's standard library as installed here;
nothing is downloaded. Everything lands in the output folder, with report.md
on top; a run that fails or is interrupted leaves nothing behind."""

EXAMPLES = """\
examples:
  keras-txl quickstart
  keras-txl quickstart --corpus my_texts/ --minutes 10 --output my_report
"""

HELD_OUT_BYTES = 200_000
VALIDATION_BYTES = 2**15
PROMPT_BYTES = 200
SAMPLE_TOKENS = 400

# What comes after training takes, measured on two cores: for each segment
# that is evaluated so many steps of training, and so many seconds whatever
# the model.
EVALUATION_STEPS = 1.9
RELOAD_STEPS = 0.35
OTHER_SECONDS = 15.0

TRAINING_SHARE = 0.4  # of the time at least; a busy machine takes longer

STARTED = time.monotonic()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument(
        "--corpus",
        default="stdlib",
        metavar="PATH",
        help="text file, folder of text files or glob; a file is a document. "
        '"stdlib" means the sources of the Python standard library',
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--minutes",
        type=positive_number,
        default=3.0,
        metavar="X",
        help="time for all of it; training gets what the rest leaves",
    )
    length.add_argument(
        "--steps",
        type=positive_integer,
        metavar="N",
        help="steps to train, instead of --minutes; the same number and "
        "--seed give the same results",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("quickstart"),
        metavar="DIR",
        help="folder for the results, new or empty",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the results of an earlier quickstart in --output",
    )
    add_tokenizer(parser)
    add_seed(parser)
    add_model_arguments(parser)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    check_corpus(options.corpus)
    check_tokenizer(options.tokenizer)
    check_model_size(options)
    check_output(
        options.output,
        options.overwrite,
        "Choose another folder, or replace the earlier results with "
        "--overwrite.",
    )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl.cli.progress import say
    from keras_txl.data import load_corpus

    say("Reading the corpus.")
    size = model_size(options)
    corpus = load_corpus(
        options.corpus,
        minimum_bytes=size.segment_length + 1,
        seed=options.seed,
    )
    with staged_folder(options.output) as stage:
        _quickstart(options, corpus, stage)
    print(f"All of it is in {options.output}; begin with report.md there.")


def _quickstart(options: argparse.Namespace, corpus: Any, stage: Path) -> None:
    from keras_txl.cli.encoded_texts import tokenizer_of
    from keras_txl.cli.encoded_texts import unit_of
    from keras_txl.cli.memory_table import hold_out
    from keras_txl.cli.reload_check import prove_reload
    from keras_txl.cli.report import NO_PLOTS
    from keras_txl.cli.report import versions
    from keras_txl.cli.report import write_report
    from keras_txl.report.shown_text import printable

    rng = random.Random(options.seed)
    held_out = [document.data for document in corpus.test]
    rng.shuffle(held_out)
    documents, was_cut = hold_out(held_out, HELD_OUT_BYTES)
    lm, history, steps = _train(options, corpus, documents, stage)
    table = _measure(options, lm, documents, was_cut)
    _print_table(table)
    sample = _sample(lm, held_out, stage, options.seed)
    print(printable(sample), end="\n\n")
    lm.save_to_preset(str(stage / MODEL_NAME))
    expected = table.evaluations[options.segment_length].nats
    reload_sentence = prove_reload(
        options, stage / MODEL_NAME, documents, expected
    )
    print(reload_sentence)
    sizes = corpus.sizes
    unit = unit_of(tokenizer_of(lm))
    facts = {
        "corpus": f"{corpus.source}: {sizes['train']:,} bytes to train on, "
        f"{sizes['validation']:,} to validate, {sizes['test']:,} held out",
        "model": f"{counted(count_parameters(lm), 'parameter')}, "
        f"{options.num_layers} layers, width {options.hidden_dim}, trained "
        f"with a memory of {options.memory_length} {unit}s",
        "training": f"{steps} steps of {options.batch_size} x "
        f"{options.segment_length} {unit}s, seed {options.seed}; repeat with "
        f"`keras-txl quickstart --steps {steps} --seed {options.seed}` and "
        "all other options as they were",
        "made with": versions(),
    }
    if not write_report(stage, facts, table, history, sample, reload_sentence):
        print(NO_PLOTS)


def _train(
    options: argparse.Namespace,
    corpus: Any,
    documents: Sequence[bytes],
    stage: Path,
) -> tuple[Any, list[Any], int]:
    """Train within the budget; returns model, history and steps."""
    from keras_txl.cli.encoded_texts import encode_documents
    from keras_txl.cli.encoded_texts import make_tokenizer
    from keras_txl.cli.encoded_texts import unit_of
    from keras_txl.cli.progress import say
    from keras_txl.cli.training_plan import TrainingPlan
    from keras_txl.cli.training_plan import needs_timing
    from keras_txl.cli.training_plan import steps_in
    from keras_txl.cli.training_run import TrainingHistory
    from keras_txl.cli.training_run import build_model
    from keras_txl.cli.training_run import measure_step
    from keras_txl.cli.training_run import run_plan

    size = model_size(options)
    tokenizer = make_tokenizer(options.tokenizer)
    stream, validation = _streams(corpus, tokenizer, size, options.seed)
    lm = build_model(size, options.seed, tokenizer)
    imported = time.monotonic() - STARTED
    step, step_seconds, timed = 0, 0.0, ""
    if needs_timing(options.steps):
        step, step_seconds = measure_step(lm, stream)
        timed = f"{step_seconds * 1000:.0f} ms a step, "
    steps = options.steps
    if steps is None:
        held_out = encode_documents(tokenizer, documents)
        segments = sum(map(len, held_out)) / (
            size.batch_size * size.segment_length
        )
        later = segments * (EVALUATION_STEPS + RELOAD_STEPS) * step_seconds
        later += OTHER_SECONDS + imported  # the new process imports as well
        steps = steps_in(
            _seconds_to_train(options.minutes * 60, later),
            step_seconds,
            len(validation) * step_seconds / 2,
        )
    plan = TrainingPlan(max(steps, step), size.learning_rate)
    say(
        f"{counted(stream.num_tokens, unit_of(tokenizer))} to train on, "
        f"{counted(count_parameters(lm), 'parameter')}, "
        f"{timed}{plan.steps} steps."
    )
    history = TrainingHistory(stage / "history.csv", step)
    if step < plan.steps:
        run_plan(lm, stream, step, plan, validation, [history])
    return lm, history.rows, plan.steps


def _streams(
    corpus: Any, tokenizer: Any, size: ModelSize, seed: int
) -> tuple[Any, Any]:
    """Segments to train and to validate on."""
    from keras_txl.cli.encoded_texts import encode_documents
    from keras_txl.cli.training_run import take_bytes
    from keras_txl.data import SegmentStream

    training = encode_documents(
        tokenizer, [document.data for document in corpus.train]
    )
    # Files next to each other are alike: mixed, each stream sees all kinds.
    random.Random(seed).shuffle(training)
    validation = encode_documents(
        tokenizer, take_bytes(corpus.validation, VALIDATION_BYTES)
    )
    return (
        SegmentStream(training, size.batch_size, size.segment_length),
        SegmentStream(validation, size.batch_size, size.segment_length),
    )


def _seconds_to_train(total: float, later: float) -> float:
    """What is left of the time, less what comes `later`; never little."""
    spent = time.monotonic() - STARTED
    return max(total - spent - later, TRAINING_SHARE * total)


def _measure(
    options: argparse.Namespace,
    lm: Any,
    documents: Sequence[bytes],
    was_cut: bool,
) -> Any:
    from keras_txl.cli.encoded_texts import tokenizer_of
    from keras_txl.cli.memory_table import measure_memory
    from keras_txl.cli.progress import progress_bar

    with progress_bar("Evaluating held-out text") as update:
        return measure_memory(
            lm,
            documents,
            was_cut,
            tokenizer_of(lm),
            segment_length=options.segment_length,
            batch_size=options.batch_size,
            seed=options.seed,
            progress=update,
        )


def _print_table(table: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(
        title=f"{table.num_bytes:,} held-out bytes, "
        f"segments of {table.segment_length}",
        min_width=46,
    )
    shown.add_column("setting")
    shown.add_column("bits per byte", justify="right")
    for label, bits in table.rows():
        if label == next(iter(table.compressors)):
            shown.add_section()
        shown.add_row(label, f"{bits:.4f}")
    Console().print(shown)
    print(table.verdict(), end="\n\n")


def _sample(lm: Any, held_out: Sequence[bytes], stage: Path, seed: int) -> str:
    from keras_txl.cli.generate import continue_text
    from keras_txl.cli.generate import make_sampler
    from keras_txl.cli.progress import say

    say("Writing a sample.")
    tokenizer = lm.preprocessor.tokenizer
    ids = tokenizer.tokenize(choose_prompt(held_out))
    prompt = tokenizer.detokenize(ids)  # as the model sees it
    size = len(prompt.encode())
    sampler = make_sampler(seed, temperature=0.8, top_p=0.95)
    text = continue_text(lm, prompt, len(ids) + SAMPLE_TOKENS, sampler)
    (stage / "sample.txt").write_text(
        f"{text}\n\n---\nThe first {size} bytes are held-out text, the rest "
        "is the model's.\n",
        encoding="utf-8",
    )
    return text


def choose_prompt(held_out: Sequence[bytes]) -> str:
    """A stretch of text from the first held-out document that is long enough.

    Args:
        held_out: documents.

    Returns:
        About `PROMPT_BYTES` bytes that begin a line.
    """
    longest = max(held_out, key=len)
    document = next((d for d in held_out if len(d) > 2000), longest)
    middle = len(document) // 2
    start = document.rfind(b"\n", 0, middle) + 1
    if middle - start > PROMPT_BYTES:  # no lines, or very long ones
        start = middle
    prompt = document[start : start + PROMPT_BYTES]
    return prompt.decode("utf-8", "ignore") or "The "
