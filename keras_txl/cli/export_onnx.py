"""`keras-txl export onnx`: an ONNX file for devices."""

import argparse
from pathlib import Path

from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.export_check import told
from keras_txl.cli.export_folders import add_overwrite
from keras_txl.cli.export_folders import check_folders
from keras_txl.cli.model_folder import load_model

NAME = "onnx"

HELP = "ONNX for phones, browsers and single boards"

DESCRIPTION = """\
Write an ONNX file with memory as inputs and outputs, and beside it what
runtimes read: manifest, configuration, tokenizer. It is checked in ONNX
Runtime against the Keras model.

flavours:
  hidden   memory as hidden states, segment by segment: for scoring
  kv       memory as keys and values, with the names of Hugging Face and of
           ONNX Runtime GenAI; the caller cuts it to --memory-length
  kv_ring  a ring of keys and values, a token at a time: constant memory, the
           fastest; the drivers for devices run this one"""

EXAMPLES = """\
examples:
  keras-txl export onnx my_model --output my_model_onnx --flavour kv_ring
  keras-txl export onnx my_model --output genai --flavour kv
  keras-txl export onnx my_model --output small --flavour kv_ring \\
      --quantize int8
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
        "--flavour",
        choices=("hidden", "kv", "kv_ring"),
        default="kv",
        help="what memory is",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens kept in memory (default: as the model was built)",
    )
    parser.add_argument(
        "--opset",
        type=positive_integer,
        default=17,
        metavar="N",
        help="version of ONNX's operators, 13 to 18",
    )
    parser.add_argument(
        "--quantize",
        choices=("int8", "fp16"),
        help="a quarter or half of the size (default: float32)",
    )
    add_overwrite(parser)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    check_folders(options)


def run(options: argparse.Namespace) -> None:
    """Run the target."""
    from keras_txl.export import export_onnx
    from keras_txl.export import read_manifest
    from keras_txl.export.onnx_file import file_size

    folder = export_onnx(
        load_model(options.model),
        options.output,
        options.flavour,
        options.memory_length,
        options.opset,
        options.quantize,
    )
    manifest = read_manifest(folder)
    size = file_size(folder) / 2**20
    print(f"Wrote {folder}: {options.flavour}, {size:.1f} MiB.")
    print(told(manifest["check"]))
