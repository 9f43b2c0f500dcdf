"""`keras-txl train`: a model trained on a text."""

import argparse
import dataclasses
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import ModelSize
from keras_txl.cli.arguments import add_model_arguments
from keras_txl.cli.arguments import add_seed
from keras_txl.cli.arguments import add_tokenizer
from keras_txl.cli.arguments import check_model_size
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.arguments import positive_number
from keras_txl.cli.given_options import record_given
from keras_txl.cli.model_folder import MODEL_NAME
from keras_txl.cli.model_folder import check_corpus
from keras_txl.cli.model_folder import check_encoded
from keras_txl.cli.model_folder import check_texts
from keras_txl.cli.model_folder import check_tokenizer
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.model_folder import save_model
from keras_txl.cli.output_folder import check_output
from keras_txl.cli.training_choices import TrainingChoices
from keras_txl.cli.training_choices import add_training_choices
from keras_txl.cli.training_plan import OPEN_SCHEDULES
from keras_txl.cli.training_plan import TrainingPlan
from keras_txl.cli.training_plan import needs_timing
from keras_txl.cli.training_plan import steps_in
from keras_txl.cli.training_settings import new_settings
from keras_txl.cli.training_settings import resumed_settings
from keras_txl.cli.wording import counted

HELP = "train a model on a text"

DESCRIPTION = """\
Train a model on a text and save it: over bytes, or over the tokens of
--tokenizer. The text is read as --batch-size streams side by side, in
segments, and each stream remembers the last --memory-length tokens.

The output folder gets
  model/         the model, for the other verbs and for from_preset
  checkpoint/    everything that --resume needs
  history.csv    step, seconds, learning rate, losses in nats per token
Ctrl-C saves all of it; --resume goes on as if nothing had happened."""

EXAMPLES = """\
examples:
  keras-txl train book.txt --output my_model --minutes 10
  keras-txl train texts/ --output my_model --steps 5000 --hidden-dim 256
  keras-txl train book.txt --output my_model --random-starts --accumulate 4
  keras-txl train book.txt --output my_model --resume
  keras-txl train book.txt --output other --steps 2000 --schedule constant
  keras-txl train book.txt --output other --resume --steps 4000
  keras-txl train wiki.txt --tokenizer my_words --cutoffs 2000,6000 \\
      --output my_model
"""

CHECKPOINT_NAME = "checkpoint"
HISTORY_NAME = "history.csv"
VALIDATION_BYTES = 2**16
CHECKPOINT_SECONDS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    record_given(parser)
    parser.add_argument(
        "corpus",
        metavar="CORPUS",
        help="text file, folder of text files or glob; a file is a document. "
        '"stdlib" means the sources of the Python standard library; enwik8, '
        "text8, wikitext-103, wikitext-2, ptb, lm1b and pg19 are downloaded. "
        "Or a folder that data encode wrote, with another as --validation",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the results, new or empty",
    )
    _add_budget(parser)
    parser.add_argument(
        "--validation",
        metavar="PATH",
        help="text to validate on (default: a part of the corpus that is "
        f"left out of training); {VALIDATION_BYTES // 1024} KiB are used",
    )
    add_tokenizer(parser)
    add_seed(parser)
    _add_existing_run(parser)
    add_model_arguments(parser)
    add_training_choices(parser)


def _add_budget(parser: argparse.ArgumentParser) -> None:
    """How long to train."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--minutes",
        type=positive_number,
        default=10.0,
        metavar="X",
        help="time to spend; the number of steps follows from timing some",
    )
    length.add_argument(
        "--steps",
        type=positive_integer,
        metavar="N",
        help="number of steps, instead of --minutes; the same number and "
        "--seed give the same model",
    )


def _add_existing_run(parser: argparse.ArgumentParser) -> None:
    """What becomes of a run in the output folder."""
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --output to its end, under its own "
        "settings; other options must be those of the run, but more --steps "
        f"make it longer if its schedule is {' or '.join(OPEN_SCHEDULES)}",
    )
    again.add_argument(
        "--overwrite",
        action="store_true",
        help="replace an earlier run in --output",
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    check_corpus(options.corpus)
    if options.validation:
        check_texts([options.validation])
    check_encoded(options.corpus, options.validation)
    if not options.resume:
        check_tokenizer(options.tokenizer)
        check_model_size(options)
        check_output(
            options.output,
            options.overwrite,
            "Choose another folder, go on with --resume, or replace it with "
            "--overwrite.",
        )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    started = time.monotonic()
    from keras_txl.cli.encoded_texts import encode_documents
    from keras_txl.cli.encoded_texts import is_encoded
    from keras_txl.cli.encoded_texts import make_tokenizer
    from keras_txl.cli.encoded_texts import open_encoded

    if options.resume:
        checkpoint = options.output / CHECKPOINT_NAME
        settings = resumed_settings(options, checkpoint)
    else:
        settings = new_settings(options)
    size = ModelSize(**settings["size"])
    tokenizer = make_tokenizer(settings.get("tokenizer"))
    ids: list[Any]
    if is_encoded(options.corpus):
        ids = [
            open_encoded(source, tokenizer)
            for source in (options.corpus, settings["validation"])
        ]
    else:
        texts = _load(options.corpus, settings, size)
        ids = [encode_documents(tokenizer, part) for part in texts]
    _train(options, settings, size, tokenizer, ids, started)


def _load(
    corpus: str, settings: dict[str, Any], size: ModelSize
) -> tuple[list[bytes], list[bytes]]:
    """Texts to train and to validate on."""
    from keras_txl.cli.training_run import take_bytes
    from keras_txl.data import load_corpus

    other = settings["validation"]
    loaded = load_corpus(
        corpus,
        test_fraction=0,
        validation_fraction=0 if other else 0.05,
        minimum_bytes=size.segment_length + 1,
        seed=settings["seed"],
    )
    validation = loaded.validation
    if other:
        validation = load_corpus(
            other, validation_fraction=0, test_fraction=0
        ).train
    return (
        [document.data for document in loaded.train],
        take_bytes(validation, VALIDATION_BYTES),
    )


def _train(
    options: argparse.Namespace,
    settings: dict[str, Any],
    size: ModelSize,
    tokenizer: Any,
    ids: list[Any],
    started: float,
) -> None:
    from keras_txl.cli.training_run import TrainingHistory
    from keras_txl.cli.training_run import build_model
    from keras_txl.cli.training_run import run_plan

    choices = TrainingChoices(**settings["choices"])
    stream, held_out = _streams(ids, size, choices, settings["seed"])
    lm = build_model(size, settings["seed"], tokenizer, choices)
    checkpoint = options.output / CHECKPOINT_NAME
    step = 0
    if options.resume:
        step = _checkpoint(checkpoint, settings, None).restore(lm)
    else:
        _remove_earlier(options.output)
    _tell_start(stream, lm, tokenizer, step)
    history = TrainingHistory(options.output / HISTORY_NAME, step)
    checkpoint.mkdir(parents=True, exist_ok=True)
    try:
        plan, step = _plan(
            settings, lm, stream, step, checkpoint, held_out, started
        )
        history.step = step
        if step < plan.steps:
            run_plan(
                lm,
                stream,
                step,
                plan,
                held_out,
                [history, _checkpoint(checkpoint, settings, plan)],
            )
    except KeyboardInterrupt:
        if not any(checkpoint.iterdir()):  # before any step
            _remove_if_empty(checkpoint, options.output)
            raise
        save_model(lm, options.output / MODEL_NAME)
        raise KeyboardInterrupt(_way_on(options)) from None
    save_model(lm, options.output / MODEL_NAME)
    _print_summary(history.rows, plan.steps, options.output, tokenizer)


def _streams(
    ids: list[Any], size: ModelSize, choices: TrainingChoices, seed: int
) -> tuple[Any, Any]:
    """Segments to train and to validate on, from the ids of both."""
    from keras_txl.data import SegmentStream

    stream = SegmentStream(
        ids[0],
        size.batch_size,
        size.segment_length,
        random_lengths=choices.random_lengths,
        random_starts=choices.random_starts,
        shuffle_documents=choices.shuffle_documents,
        seed=seed,
    )
    return stream, SegmentStream(ids[1], size.batch_size, size.segment_length)


def _tell_start(stream: Any, lm: Any, tokenizer: Any, step: int) -> None:
    from keras_txl.cli.encoded_texts import unit_of
    from keras_txl.cli.progress import say

    say(
        f"{counted(stream.num_tokens, unit_of(tokenizer))} in "
        f"{counted(stream.num_documents, 'document')}, "
        f"{counted(count_parameters(lm), 'parameter')}, from step {step}."
    )


def _way_on(options: argparse.Namespace) -> str:
    """What to tell after Ctrl-C."""
    return (
        f"The model and a checkpoint are in {options.output}. Go on "
        f"with: keras-txl train {shlex.quote(options.corpus)} --output "
        f"{shlex.quote(str(options.output))} --resume"
    )


def _plan(
    settings: dict[str, Any],
    lm: Any,
    stream: Any,
    step: int,
    checkpoint: Path,
    held_out: Any,
    started: float,
) -> tuple[Any, int]:
    """The plan of the run, made after timing some steps if it is new."""
    from keras_txl.cli.progress import say
    from keras_txl.cli.training_run import measure_step

    if settings["plan"] is not None:
        return TrainingPlan(**settings["plan"]), step
    steps, timed = settings["steps"], ""
    if needs_timing(steps, step):
        step, step_seconds = measure_step(
            lm, stream, [_checkpoint(checkpoint, settings, None)], step
        )
        timed = f"{step_seconds * 1000:.0f} ms a step, "
    if steps is None:
        spent = time.monotonic() - started
        steps = steps_in(
            settings["minutes"] * 60 - spent,
            step_seconds,
            len(held_out) * step_seconds / 2,
        )
    plan = TrainingPlan(
        max(steps, step),
        settings["size"]["learning_rate"],
        settings["choices"]["schedule"],
        settings["choices"]["warmup"],
    )
    say(f"{timed}{plan.steps} steps in all.")
    return plan, step


def _checkpoint(folder: Path, settings: dict[str, Any], plan: Any) -> Any:
    from keras_txl.training import ResumeTraining

    told = None if plan is None else dataclasses.asdict(plan)
    return ResumeTraining(
        folder,
        every_seconds=CHECKPOINT_SECONDS,
        extra={**settings, "plan": told},
    )


def _remove_earlier(output: Path) -> None:
    """Remove an earlier run, and nothing else that stands beside it."""
    for name in (MODEL_NAME, CHECKPOINT_NAME):
        shutil.rmtree(output / name, ignore_errors=True)
    (output / HISTORY_NAME).unlink(missing_ok=True)


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        if not any(folder.iterdir()):
            folder.rmdir()


def _print_summary(
    rows: list[dict[str, Any]], steps: int, output: Path, tokenizer: Any
) -> None:
    from keras_txl.cli.encoded_texts import tell_loss

    losses = [row["loss"] for row in rows if row["loss"] is not None]
    checks = [row["val_loss"] for row in rows if row["val_loss"] is not None]
    print(f"steps: {steps}")
    if losses:
        print(f"training loss: {tell_loss(losses[-1], tokenizer)}")
    if checks:
        print(f"validation loss: {tell_loss(checks[-1], tokenizer)}")
    print(f"model: {output / 'model'}")
