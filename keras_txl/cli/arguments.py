"""Arguments that several verbs share, and their types."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path


def positive_integer(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    return _integer(text, 1)


def natural_number(text: str) -> int:
    """An argparse type: an integer of at least 0."""
    return _integer(text, 0)


def positive_number(text: str) -> float:
    """An argparse type: a finite number above 0."""
    value = _number(text)
    if not 0 < value < float("inf"):
        raise _unfit("a finite number above 0", text)
    return value


def temperature(text: str) -> float:
    """An argparse type: a finite number of at least 0."""
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise _unfit("a finite number of at least 0", text)
    return value


def ascending_integers(text: str) -> tuple[int, ...]:
    """An argparse type: integers of at least 1, each above the one before."""
    values = tuple(_integer(part, 1) for part in text.split(","))
    if list(values) != sorted(set(values)):
        raise _unfit("integers that ascend, such as 2000,10000", text)
    return values


def fraction(text: str) -> float:
    """An argparse type: a number in [0, 1)."""
    value = _number(text)
    if not 0 <= value < 1:
        raise _unfit("at least 0 and below 1", text)
    return value


def probability(text: str) -> float:
    """An argparse type: a number in (0, 1]."""
    value = _number(text)
    if not 0 < value <= 1:
        raise _unfit("above 0 and at most 1", text)
    return value


def _integer(text: str, minimum: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise _unfit(f"an integer of at least {minimum}", text)
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise _unfit("a number", text)
    return value


def _unfit(wanted: str, text: str) -> argparse.ArgumentTypeError:
    """What argparse puts behind the name of the option."""
    return argparse.ArgumentTypeError(f"must be {wanted}. Received: {text}")


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a model that a command line can choose.

    Args:
        segment_length: tokens read in one call.
        memory_length: tokens kept in memory.
        batch_size: parallel streams.
        num_layers: blocks.
        num_heads: attention heads of a block.
        hidden_dim: residual width.
        intermediate_dim: width of the feed-forward layer.
        dropout: dropout rate.
        learning_rate: highest learning rate.
        cutoffs: first ids of the tails of an adaptive softmax.
        div_val: by which factor each tail is narrower.
        position: how positions are told apart, see `TransformerXLBackbone`.
    """

    segment_length: int
    memory_length: int
    batch_size: int
    num_layers: int
    num_heads: int
    hidden_dim: int
    intermediate_dim: int
    dropout: float
    learning_rate: float
    cutoffs: tuple[int, ...] | None = None
    div_val: int = 1
    position: str = "relative_sinusoidal"


# Chosen by measurement for two CPU cores and a few minutes.
DEFAULT_SIZE = ModelSize(
    segment_length=64,
    memory_length=64,
    batch_size=16,
    num_layers=2,
    num_heads=4,
    hidden_dim=128,
    intermediate_dim=512,
    dropout=0.0,
    learning_rate=4e-3,
)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sizes of a new model and of its training."""
    group = parser.add_argument_group("model and training")
    d = DEFAULT_SIZE
    for name, kind, default, text in (
        ("segment-length", positive_integer, d.segment_length,
         "tokens (bytes) read in one step"),
        ("memory-length", natural_number, d.memory_length,
         "tokens (bytes) kept in memory; 0 trains without memory"),
        ("batch-size", positive_integer, d.batch_size,
         "streams read side by side"),
        ("num-layers", positive_integer, d.num_layers, "blocks"),
        ("num-heads", positive_integer, d.num_heads, "heads of a block"),
        ("hidden-dim", positive_integer, d.hidden_dim, "residual width"),
        ("intermediate-dim", positive_integer, d.intermediate_dim,
         "width of the feed-forward layer"),
        ("dropout", fraction, d.dropout, "dropout rate"),
        ("learning-rate", positive_number, d.learning_rate,
         "highest learning rate, reached after a warm-up and lowered "
         "again; wider models need a lower one"),
    ):  # fmt: skip
        group.add_argument(
            f"--{name}",
            type=kind,
            default=default,
            metavar="N" if isinstance(default, int) else "X",
            help=text,
        )
    group.add_argument(
        "--cutoffs",
        type=ascending_integers,
        metavar="N,N,...",
        help="adaptive softmax and embedding: ids from which the rarer parts "
        "of the vocabulary begin, as 2000,10000; for large vocabularies that "
        "are ordered by frequency",
    )
    group.add_argument(
        "--div-val",
        type=positive_integer,
        default=d.div_val,
        metavar="N",
        help="each part is narrower than the one before by this factor",
    )


def check_model_size(options: argparse.Namespace) -> None:
    """Refuse a width that does not suit the heads and the sines.

    Raises:
        ValueError: if it is odd or no multiple of the number of heads.
    """
    width, heads = options.hidden_dim, options.num_heads
    unit = math.lcm(heads, 2)
    if width % unit:
        near = sorted({max(width // unit, 1), width // unit + 1})
        suited = " or ".join(str(number * unit) for number in near)
        raise ValueError(
            "--hidden-dim must be even and divisible by --num-heads. "
            f"Received: --hidden-dim {width}, --num-heads {heads}. Use "
            f"--hidden-dim {suited}, or another number of heads."
        )


def model_size(options: argparse.Namespace) -> ModelSize:
    """The sizes that were chosen."""
    return ModelSize(**{name: getattr(options, name) for name in _SIZE_NAMES})


_SIZE_NAMES = tuple(
    name for name in ModelSize.__dataclass_fields__ if name != "position"
)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`."""
    parser.add_argument(
        "--seed",
        type=natural_number,
        default=0,
        metavar="N",
        help="seed of everything random",
    )


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    """Add `--tokenizer`."""
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="DIR",
        help="folder that keras-txl tokenizer train wrote, or a model whose "
        "tokenizer to use (default: bytes)",
    )


def add_model_folder(parser: argparse.ArgumentParser) -> None:
    """Add the positional `MODEL`."""
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help="folder written by train or quickstart, or any preset folder "
        "of a TransformerXLCausalLM",
    )


def add_evaluation_sizes(parser: argparse.ArgumentParser) -> None:
    """Add `--segment-length` and `--batch-size` of an evaluation."""
    parser.add_argument(
        "--segment-length",
        type=positive_integer,
        default=DEFAULT_SIZE.segment_length,
        metavar="N",
        help="tokens (bytes) read in one call",
    )
    parser.add_argument(
        "--batch-size",
        type=positive_integer,
        default=DEFAULT_SIZE.batch_size,
        metavar="N",
        help="streams read side by side",
    )
