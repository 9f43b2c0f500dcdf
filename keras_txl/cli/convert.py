"""`keras-txl convert`: checkpoints of other code as model folders."""

import argparse
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import natural_number
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.model_folder import memory_length_of
from keras_txl.cli.model_folder import save_model
from keras_txl.cli.output_folder import check_output

HELP = "read a checkpoint of the original code or of Hugging Face"

DESCRIPTION = """\
Read a checkpoint of other code and write it as a model folder. The
conventions of that code come along: what a new memory holds, how many keys
the attention window shows, the order of the clusters. No file is unpickled;
a PyTorch file must hold a dict of tensors.

sources:
  original-pytorch     a folder with config.json (the constructor arguments of
                       MemTransformerLM) and model.safetensors,
                       pytorch_model.bin or weights.npz; or such a file
  original-tensorflow  the prefix of a checkpoint, for example model.ckpt-0;
                       --config is needed
  huggingface          a folder of a TransfoXL model; or its weight file"""

EXAMPLES = """\
examples:
  keras-txl convert huggingface transfo-xl-wt103/ --output wt103
  keras-txl convert original-pytorch model.npz --config args.json --output my_xl
  keras-txl convert original-tensorflow tf_enwik8/model/model.ckpt-0 \\
      --config enwik8.json --output enwik8

A configuration of original-tensorflow holds the flags that shape the model
and the facts of corpus-info.json, for example:
  {"vocab_size": 204, "n_layer": 24, "n_head": 8, "d_model": 1024,
   "d_head": 128, "d_inner": 3072, "mem_len": 3800, "clamp_len": 1000,
   "same_length": true}
"""

SOURCES = ("original-pytorch", "original-tensorflow", "huggingface")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument(
        "kind", choices=SOURCES, metavar="KIND", help=", ".join(SOURCES)
    )
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="checkpoint: a folder, a file, or the prefix of one",
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="model folder to write",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="JSON file with the configuration (default: config.json in "
        "SOURCE)",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens kept in memory (default: as the source says)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace a model that stands in the output folder",
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    check_output(
        options.output,
        options.overwrite,
        "Choose another folder, or replace it with --overwrite.",
    )
    tensorflow = options.kind == "original-tensorflow"
    index = Path(f"{options.source}.index")
    if not options.source.exists() and not (tensorflow and index.is_file()):
        raise FileNotFoundError(
            "There is no such checkpoint. Received: "
            f"{str(options.source)!r}. Pass "
            + (
                "the path of a checkpoint up to and without .index."
                if tensorflow
                else "a folder or a weight file."
            )
        )
    if options.config is None:
        if tensorflow or not options.source.is_dir():
            raise ValueError(
                "--config is needed: this source has no configuration in it. "
                f"Received: {str(options.source)!r}. Pass a JSON file; "
                "keras-txl convert --help shows one."
            )
    elif not options.config.is_file():
        raise FileNotFoundError(
            "--config must be a file that exists. Received: "
            f"{str(options.config)!r}. Pass a JSON file; keras-txl convert "
            "--help shows one."
        )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_txl import convert

    overrides = {}
    if options.memory_length is not None:
        overrides["memory_length"] = options.memory_length
    config = options.config or options.source
    if options.kind == "original-tensorflow":
        lm = convert.from_original_tensorflow(
            options.source, config, **overrides
        )
    elif options.kind == "huggingface":
        lm = convert.from_huggingface(config, options.source, **overrides)
    else:
        lm = convert.from_original_pytorch(config, options.source, **overrides)
    save_model(lm, options.output)
    _tell(lm, options)


def _tell(lm: Any, options: argparse.Namespace) -> None:
    backbone = lm.backbone
    print(f"Wrote {options.output}: {count_parameters(lm):,} parameters.")
    for name, value in (
        ("memory length", memory_length_of(lm)),
        ("attention window", backbone.attention_window),
        ("clamp length", backbone.clamp_length),
        ("attends to empty memory", backbone.attend_empty_memory),
        ("shared attention biases", backbone.share_attention_biases),
        ("layer norm epsilon", backbone.layer_norm_epsilon),
        ("position", backbone.position),
    ):
        print(f"  {name}: {value}")
