"""Folders of the targets that write one folder: the model's and the new one."""

import argparse

from keras_txl.cli.model_folder import find_model
from keras_txl.cli.output_folder import check_output


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add `--overwrite`, which goes with `--output`."""
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace what an earlier export wrote to the folder",
    )


def check_folders(options: argparse.Namespace) -> None:
    """Refuse a folder in use and a model that is not there."""
    check_output(
        options.output,
        options.overwrite,
        "Choose another folder, or replace it with --overwrite.",
    )
    find_model(options.model)
