"""Options that say how texts are read in an evaluation."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from typing import Any

from keras_txl.cli.arguments import DEFAULT_SIZE
from keras_txl.cli.arguments import fraction
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.arguments import positive_number

if TYPE_CHECKING:
    from keras_txl.evaluation import EvaluationProtocol

WINDOWS = ("memory_length", "memory_length+1")


def number_or_none(text: str) -> int | None:
    """An argparse type: an integer of at least 1, or the word none."""
    return None if text == "none" else positive_integer(text)


def window(text: str) -> int | str | None:
    """An argparse type: an attention window."""
    return text if text in WINDOWS else number_or_none(text)


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """Add the options of a protocol, besides the sizes."""
    group = parser.add_argument_group("protocol")
    group.add_argument(
        "--preset-protocol",
        metavar="NAME",
        help="lengths, window and clamping of a published evaluation, such "
        "as txl_wt103_base, read as one stream; options that are given as "
        "well win",
    )
    group.add_argument(
        "--clamp-length",
        type=number_or_none,
        default=argparse.SUPPRESS,  # `None` is a value
        metavar="N",
        help="larger distances count as this one; none tells all apart "
        "(default: as the model was built)",
    )
    group.add_argument(
        "--attention-window",
        type=window,
        default=argparse.SUPPRESS,  # `None` is a value
        metavar="N",
        help="tokens (bytes) that one may see, itself included: a number, "
        "memory_length, memory_length+1, or none for all (default: as the "
        "model was built)",
    )
    group.add_argument(
        "--warmup",
        type=natural_number,
        default=0,
        metavar="N",
        help="tokens (bytes) that each stream reads of its document before "
        "those it counts",
    )
    group.add_argument(
        "--stride",
        type=positive_integer,
        metavar="N",
        help="windows of --segment-length without memory, N apart, in place "
        "of streams",
    )


def add_dynamic_evaluation(parser: argparse.ArgumentParser) -> None:
    """Add the options of a step on each segment that was scored."""
    group = parser.add_argument_group(
        "dynamic evaluation",
        "A gradient step on each segment after it was scored; the model in "
        "its folder stays as it is. One stream unless --batch-size is given.",
    )
    group.add_argument(
        "--dynamic-learning-rate",
        type=positive_number,
        metavar="X",
        help="learning rate of the steps; turns them on",
    )
    group.add_argument(
        "--dynamic-decay",
        type=fraction,
        default=0.0,
        metavar="X",
        help="share of the way back to the trained weights in each step",
    )
    group.add_argument(
        "--dynamic-scales",
        metavar="TEXT",
        help="a training text: each gradient is divided by the root of its "
        "mean square there, and the decay multiplied by it",
    )
    group.add_argument(
        "--dynamic-epsilon",
        type=positive_number,
        default=1e-5,
        metavar="X",
        help="added to those roots before the division",
    )


def chosen_protocols(options: argparse.Namespace) -> list[EvaluationProtocol]:
    """The protocol of each memory length that was asked for.

    Raises:
        ValueError: if there is no preset of that name, or the choices do not
            go together.
    """
    from keras_txl.evaluation import EvaluationProtocol
    from keras_txl.evaluation import published_protocol

    given: dict[str, Any] = {
        "segment_length": options.segment_length,
        "batch_size": options.batch_size,
        "warmup_tokens": options.warmup or None,
        "stride": options.stride,
        "dynamic_learning_rate": options.dynamic_learning_rate,
        "dynamic_decay": options.dynamic_decay or None,
    }
    changes = {
        name: value for name, value in given.items() if value is not None
    }
    for name in ("clamp_length", "attention_window"):
        if hasattr(options, name):
            changes[name] = getattr(options, name)
    if options.stride:
        changes["memory_length"] = 0
    lengths = options.memory_length or [None]
    chosen = []
    for length in lengths:
        own = {} if length is None else {"memory_length": length}
        if options.preset_protocol is not None:
            chosen.append(
                published_protocol(options.preset_protocol, **changes, **own)
            )
            continue
        sizes = {
            "segment_length": DEFAULT_SIZE.segment_length,
            "batch_size": 1
            if options.dynamic_learning_rate
            else DEFAULT_SIZE.batch_size,
        }
        chosen.append(EvaluationProtocol(**{**sizes, **changes, **own}))
    return chosen
