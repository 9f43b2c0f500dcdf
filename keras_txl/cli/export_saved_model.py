"""`keras-txl export saved-model`: a version folder for TensorFlow Serving."""

import argparse
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model

NAME = "saved-model"

HELP = "SavedModel for TensorFlow Serving, memory as inputs and outputs"

DESCRIPTION = """\
Write a version folder that TensorFlow Serving loads. Memory goes in and comes
out of every request, so that a session is data and the server keeps nothing.
The signatures step, score, initial_memory, generate and generate_text take
rows of any requests together. Beside the versions stand models.config and
batching.config for the server."""

EXAMPLES = """\
examples:
  keras-txl export saved-model my_model --output served/my_model
  keras-txl export saved-model my_model --output served/my_model --version 7
  keras-txl export saved-model my_model --output small --memory-format int8
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the target."""
    add_model_folder(parser)
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of the versions; its name is the name of the model",
    )
    parser.add_argument(
        "--version",
        type=positive_integer,
        metavar="N",
        help="number of the version (default: one more than the newest)",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens kept in memory (default: as the model was built)",
    )
    parser.add_argument(
        "--memory-format",
        choices=("float32", "bfloat16", "int8"),
        default="float32",
        help="how memory travels: exact, in half or in a quarter of the bytes",
    )
    parser.add_argument(
        "--sessions",
        type=positive_integer,
        metavar="N",
        help="add session_step, which keeps the memory of N sessions on the "
        "server: for one server that need not survive a restart",
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    find_model(options.model)


def run(options: argparse.Namespace) -> None:
    """Run the target."""
    from keras_txl.export import export_saved_model
    from keras_txl.export import read_manifest

    folder = export_saved_model(
        load_model(options.model),
        options.output,
        options.version,
        options.memory_length,
        options.memory_format,
        options.sessions,
    )
    manifest = read_manifest(folder)
    print(f"Wrote {folder}: {', '.join(manifest['signatures'])}.")
    if "text_archive" in manifest:
        print(
            f"Wrote {folder.parent.with_name(manifest['text_archive'])}: "
            "generate_text, whose tokenizer needs the operations of "
            "TensorFlow Text in the server."
        )
    errors = manifest["check"]["max_abs_error"]
    print(
        "Largest difference to the Keras model: "
        + ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    )
    _print_message_size(manifest["signatures"]["step"])


def _print_message_size(signature: Any) -> None:
    """What travels, and what to do where that is too much for gRPC."""
    from keras_txl.export.serving_files import GRPC_LIMIT
    from keras_txl.export.serving_files import message_bytes

    sent, answered = message_bytes(signature)
    print(
        f"A step of one token of one row sends {sent:,} bytes and receives "
        f"{answered:,}."
    )
    if answered > GRPC_LIMIT:
        print(
            f"gRPC clients refuse answers over {GRPC_LIMIT:,} bytes: set their "
            "option grpc.max_receive_message_length (the clients of "
            "keras_txl.export.serving do), or use --memory-format int8, or "
            "the signature generate, which sends no memory."
        )
