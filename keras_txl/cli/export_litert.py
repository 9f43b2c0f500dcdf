"""`keras-txl export litert`: a file for LiteRT (TensorFlow Lite)."""

import argparse
from pathlib import Path

from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.export_check import told
from keras_txl.cli.export_folders import add_overwrite
from keras_txl.cli.export_folders import check_folders
from keras_txl.cli.model_folder import load_model

NAME = "litert"

HELP = "LiteRT (TensorFlow Lite) for phones"

DESCRIPTION = """\
Write model.tflite with the signatures step, score and initial_memory of the
SavedModel, checked in the package ai-edge-litert."""

EXAMPLES = """\
examples:
  keras-txl export litert my_model --output my_model_litert
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the target."""
    add_model_folder(parser)
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder to write",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens kept in memory (default: as the model was built)",
    )
    add_overwrite(parser)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    check_folders(options)


def run(options: argparse.Namespace) -> None:
    """Run the target."""
    from keras_txl.export import export_litert
    from keras_txl.export import read_manifest

    folder = export_litert(
        load_model(options.model), options.output, options.memory_length
    )
    print(f"Wrote {folder}.")
    print(told(read_manifest(folder)["check"]))
