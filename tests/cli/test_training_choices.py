"""Choices of the command line, as they reach optimizer and plan."""

import argparse

import pytest

from keras_txl.cli.arguments import DEFAULT_SIZE
from keras_txl.cli.training_choices import TrainingChoices
from keras_txl.cli.training_choices import add_training_choices
from keras_txl.cli.training_choices import training_choices

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def parse(*arguments):
    parser = argparse.ArgumentParser()
    add_training_choices(parser)
    return training_choices(parser.parse_args(arguments))


def test_nothing_chosen_is_the_default():
    assert parse() == TrainingChoices()


def test_everything_chosen_reaches_the_optimizer():
    from keras_txl.cli.training_run import build_model
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    choices = parse(
        *("--optimizer", "lamb", "--weight-decay", "0.1"),
        *("--clip-norm", "0.5", "--accumulate", "3", "--warmup", "0"),
        *("--schedule", "constant", "--random-lengths", "--random-starts"),
        "--shuffle-documents",
    )
    assert choices == TrainingChoices(
        "lamb", "constant", 0.0, 0.1, 0.5, 3, True, True, True
    )
    optimizer = build_model(
        DEFAULT_SIZE, 0, TransformerXLByteTokenizer(), choices
    ).optimizer
    assert type(optimizer).__name__ == "Lamb"
    assert optimizer.weight_decay == 0.1
    assert optimizer.global_clipnorm == 0.5
    assert optimizer.gradient_accumulation_steps == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimizer", "sgd"], "invalid choice"),
        (["--schedule", "step"], "invalid choice"),
        (["--warmup", "1"], "below 1. Received: 1"),
        (["--accumulate", "0"], "at least 1. Received: 0"),
    ],
)
def test_what_cannot_be_chosen_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        parse(*arguments)
    assert message in capsys.readouterr().err
