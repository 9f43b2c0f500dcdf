"""Options that say how texts are read in an evaluation."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from typing import Any

from keras_txl.cli.arguments import DEFAULT_SIZE
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.arguments import positive_integer

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
            "batch_size": DEFAULT_SIZE.batch_size,
        }
        chosen.append(EvaluationProtocol(**{**sizes, **changes, **own}))
    return chosen
