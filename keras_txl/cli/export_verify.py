"""`keras-txl export verify`: the check of an exported model once more."""

import argparse
from pathlib import Path

from keras_txl.cli.export_check import told
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model

NAME = "verify"

HELP = "compare an exported model with the model it came from"

DESCRIPTION = """\
See that the files of an exported model are whole, that its weights are those
of a model folder, and that its own runtime computes what Keras computes.
Prints the largest differences; exit code 1 if one is too large."""

EXAMPLES = """\
examples:
  keras-txl export verify my_model_onnx --model my_model
  keras-txl export verify served/my_model/1 --model my_model
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the target."""
    parser.add_argument(
        "artifact",
        type=Path,
        metavar="ARTIFACT",
        help="folder with a manifest.json",
    )
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="MODEL",
        help="model folder that was exported",
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    find_model(options.model)


def run(options: argparse.Namespace) -> None:
    """Run the target."""
    from keras_txl.export import verify_export

    print(told(verify_export(options.artifact, load_model(options.model))))
