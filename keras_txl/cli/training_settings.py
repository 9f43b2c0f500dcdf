"""Settings of a training run: as they are asked for, or as a run kept them."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import model_size
from keras_txl.cli.given_options import differing
from keras_txl.cli.training_choices import training_choices
from keras_txl.cli.training_plan import TrainingPlan


def new_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Settings of a run that begins, as a checkpoint keeps them.

    Args:
        options: parsed, of `train`.

    Returns:
        Dict that JSON can hold; its plan is not made yet.
    """
    return {
        "size": dataclasses.asdict(model_size(options)),
        "choices": dataclasses.asdict(training_choices(options)),
        "seed": options.seed,
        "validation": options.validation,
        "steps": options.steps,
        "minutes": None if options.steps else options.minutes,
        "tokenizer": _absolute(options.tokenizer),
        "plan": None,
    }


def resumed_settings(
    options: argparse.Namespace, checkpoint: Path
) -> dict[str, Any]:
    """Settings of the run that is to go on, made longer if that is asked.

    Args:
        options: parsed, of a parser with `record_given`.
        checkpoint: folder of the run's checkpoint.

    Returns:
        What `new_settings` returned when the run began, with its plan.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        ValueError: if options are given that are not those of the run.
    """
    from keras_txl.training import read_checkpoint

    try:
        state = read_checkpoint(checkpoint)[1]
    except FileNotFoundError:
        raise FileNotFoundError(
            "--resume needs a run that was begun. Received: --output "
            f"{str(options.output)!r}, which has no checkpoint. Leave "
            "--resume out to begin one, with --overwrite if the folder holds "
            "files."
        ) from None
    settings: dict[str, Any] = state["extra"]
    recorded = {**settings, **settings["size"], **settings["choices"]}
    if recorded.get("cutoffs") is not None:  # JSON has made it a list
        recorded["cutoffs"] = tuple(recorded["cutoffs"])
    options.tokenizer = _absolute(options.tokenizer)
    if settings["plan"] is not None:
        del recorded["steps"]  # they may be more
    different = differing(options, recorded)
    if different:
        raise ValueError(
            "--resume goes on under the settings of the run. Received: "
            f"{', '.join(different)}. Leave these options out, or begin anew "
            "with --overwrite or another --output."
        )
    if settings["plan"] is not None and options.steps is not None:
        plan = TrainingPlan(**settings["plan"]).longer(options.steps)
        settings["plan"] = dataclasses.asdict(plan)
    return settings


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
