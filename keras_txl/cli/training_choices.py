"""Arguments of `train` beyond the sizes of its model."""

import argparse
from dataclasses import dataclass

from keras_txl.cli.arguments import fraction
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.arguments import positive_number
from keras_txl.cli.training_plan import SCHEDULES
from keras_txl.cli.training_plan import WARM_UP

OPTIMIZERS = ("adam", "adamw", "lamb")


@dataclass(frozen=True)
class TrainingChoices:
    """How a model is trained, as far as a command line can choose.

    Args:
        optimizer: name that `keras_txl.training.make_optimizer` knows.
        schedule: name in `SCHEDULES`.
        warmup: share of the run until the highest learning rate.
        weight_decay: of matrices.
        clip_norm: largest norm of all gradients together.
        accumulate: steps that make up one change of the weights.
        random_lengths: whether segments differ in length.
        random_starts: whether streams begin elsewhere in each pass.
        shuffle_documents: whether each pass has an order of its own.
    """

    optimizer: str = "adam"
    schedule: str = "cosine"
    warmup: float = WARM_UP
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    accumulate: int = 1
    random_lengths: bool = False
    random_starts: bool = False
    shuffle_documents: bool = False


def add_training_choices(parser: argparse.ArgumentParser) -> None:
    """Add an argument for each of the choices."""
    group = parser.add_argument_group("optimizer and data")
    default = TrainingChoices()
    group.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default=default.optimizer,
        help="adamw is adam; both decay by --weight-decay; lamb is for large "
        "batches",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default=default.schedule,
        help="course of the learning rate after the warm-up",
    )
    for name, kind, text in (
        ("warmup", fraction, "share of the run until the highest rate"),
        ("weight-decay", fraction, "decay of matrices, times the learning "
         "rate; biases, norms and tables do not decay"),
        ("clip-norm", positive_number,
         "largest norm of all gradients together"),
        ("accumulate", positive_integer, "steps that make up one change of "
         "the weights; memory advances with each step"),
    ):  # fmt: skip
        group.add_argument(
            f"--{name}",
            type=kind,
            default=getattr(default, name.replace("-", "_")),
            metavar="N" if kind is positive_integer else "X",
            help=text,
        )
    group.add_argument(
        "--random-lengths",
        action="store_true",
        help="segments of random lengths, at most --segment-length",
    )
    group.add_argument(
        "--random-starts",
        action="store_true",
        help="streams that begin at another place in each pass over the text",
    )
    group.add_argument(
        "--shuffle-documents",
        action="store_true",
        help="lay the documents in another order in each pass over the text",
    )


def training_choices(options: argparse.Namespace) -> TrainingChoices:
    """What was chosen."""
    names = TrainingChoices.__dataclass_fields__
    return TrainingChoices(**{name: getattr(options, name) for name in names})
