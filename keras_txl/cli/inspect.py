"""`keras-txl inspect`: what a model folder holds."""

import argparse
import json
from typing import Any

from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model
from keras_txl.cli.model_folder import memory_length_of

HELP = "show configuration, size and memory of a model"

DESCRIPTION = """\
Show what a model folder holds: configuration, number of parameters, size of
the memory of one stream, receptive field, tokenizer and versions."""

EXAMPLES = """\
examples:
  keras-txl inspect my_model
  keras-txl inspect my_model --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    find_model(options.model)


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    facts = describe_model(load_model(options.model))
    facts = {"folder": str(find_model(options.model)), **facts}
    if options.json:
        print(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    configuration = facts.pop("configuration")
    table = Table(show_header=False)
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.replace("_", " "), shown)
    table.add_section()
    for name, value in configuration.items():
        table.add_row(name, str(value))
    Console().print(table)


def describe_model(lm: Any) -> dict[str, Any]:
    """Facts about a model, as JSON can hold them.

    Args:
        lm: a `TransformerXLCausalLM`.

    Returns:
        Dict of names and values; sizes of the memory in bytes a stream,
        the receptive field in tokens.
    """
    import math

    import keras
    import keras_hub

    import keras_txl

    backbone = lm.backbone
    states = lm.initial_memory(1)["states"]
    item = keras.ops.convert_to_numpy(states).dtype.itemsize
    memory_length = memory_length_of(lm)
    tokenizer = getattr(lm.preprocessor, "tokenizer", None)
    return {
        "parameters": count_parameters(lm),
        "memory_length": memory_length,
        "memory_bytes_per_stream": math.prod(states.shape) * item,
        "receptive_field": backbone.num_layers * memory_length,
        "tokenizer": type(tokenizer).__name__ if tokenizer else None,
        "vocabulary_size": backbone.vocabulary_size,
        "keras_txl_version": keras_txl.__version__,
        "keras_version": keras.__version__,
        "keras_hub_version": keras_hub.__version__,
        "backend": keras.backend.backend(),
        "configuration": {
            name: value
            for name, value in backbone.get_config().items()
            if isinstance(value, (int, float, str, bool, type(None)))
        },
    }
