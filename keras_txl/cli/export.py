"""`keras-txl export TARGET`: models as files that other runtimes read.

A target is a module of this folder with what a verb has, and its `NAME`.
"""

import argparse

from keras_txl.cli import export_litert
from keras_txl.cli import export_onnx
from keras_txl.cli import export_saved_model
from keras_txl.cli import export_verify

TARGETS = (export_saved_model, export_onnx, export_litert, export_verify)

HELP = "write a model for TensorFlow Serving and other runtimes"

DESCRIPTION = """\
Write a model for another runtime, load it there, run segments of several
lengths with memory fed back, and compare with the Keras model. A file that
computes anything else is not left behind."""

EXAMPLES = """\
examples:
  keras-txl export saved-model my_model --output served/my_model
  keras-txl export onnx my_model --output my_model_onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one parser for each target."""
    targets = parser.add_subparsers(
        title="targets", dest="target_name", metavar="TARGET", required=True
    )
    for module in TARGETS:
        target = targets.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=parser.formatter_class,
        )
        module.add_arguments(target)
        target.set_defaults(target=module)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    options.target.check(options)


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    options.target.run(options)
