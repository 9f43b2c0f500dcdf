"""Checkpoints of the authors' TensorFlow code.

The code is kimiyoung/transformer-xl, `tf/model.py`; the released enwik8,
text8, WikiText-103 and One Billion Word models are its checkpoints.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.convert.model_building import build_model
from keras_txl.convert.source_config import REQUIRED
from keras_txl.convert.source_config import bin_arguments
from keras_txl.convert.source_config import read_keys
from keras_txl.convert.source_config import shared_arguments
from keras_txl.convert.weight_files import read_config
from keras_txl.convert.weight_layout import assign_weights
from keras_txl.convert.weight_names import tensorflow_names
from keras_txl.models import TransformerXLCausalLM

# The flags of train_gpu.py that shape the model, and the two facts that it
# reads from corpus-info.json, with the defaults there.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": REQUIRED,
    "cutoffs": [],
    "n_layer": REQUIRED,
    "n_head": REQUIRED,
    "d_model": REQUIRED,
    "d_head": REQUIRED,
    "d_inner": REQUIRED,
    "d_embed": None,
    "dropout": 0.1,
    "dropatt": 0.1,
    "untie_r": False,
    "div_val": 1,
    "proj_share_all_but_first": False,
    "proj_same_dim": True,
    "mem_len": 0,
    "same_length": False,
    "clamp_len": -1,
    "init_std": 0.02,
}
_IGNORED = frozenset(
    ("dataset", "tgt_len", "init", "init_range", "proj_init_std", "tie_weight")
)

# Left by the optimizer and the loop.
_NO_WEIGHTS = re.compile(
    r"(.*/)?(Adam|Adam_1|beta1_power|beta2_power|global_step)$"
)


def from_original_tensorflow(
    checkpoint_prefix: Any, config: Any, **backbone_overrides: Any
) -> TransformerXLCausalLM:
    """Build a model of the authors' TensorFlow code from its checkpoint.

    The conventions of that code are set: a new memory is zeros that are
    attended to, `same_length` shows each query `mem_len + 1` keys, the norms
    have epsilon 1e-12, and the clusters come first to last.

    Args:
        checkpoint_prefix: path of the checkpoint without `.index`, or a
            folder with a `checkpoint` file that names the newest.
        config: dict of the flags of `train_gpu.py` that shape the model
            (`n_layer`, `n_head`, `d_model`, `d_head`, `d_inner`, `untie_r`,
            ...) and of `vocab_size` and `cutoffs` as in `corpus-info.json`;
            or path of a JSON file with them.
        **backbone_overrides: arguments of `TransformerXLBackbone` that
            replace the source's, for example `batch_size`, `dtype`,
            `memory_length`.

    Returns:
        A `TransformerXLCausalLM` without a preprocessor.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        ValueError: if a key of `config` is missing or unknown, if a file is
            damaged, or if weights do not fit.
    """
    keys = _read_keys(read_config(config))
    arguments = _backbone_arguments(keys)
    prefix = find_checkpoint(Path(checkpoint_prefix))
    arrays = read_checkpoint(prefix)
    lm = build_model(arguments, backbone_overrides)
    table = tensorflow_names(lm, keys["proj_same_dim"])
    assign_weights(lm, table, arrays, prefix)
    return lm


def find_checkpoint(path: Path) -> str:
    """The prefix of the checkpoint that a path means.

    Args:
        path: prefix, its `.index` file, or a folder with a `checkpoint` file.

    Returns:
        The prefix.

    Raises:
        FileNotFoundError: if there is no checkpoint.
    """
    prefix = path
    if path.is_dir() and (path / "checkpoint").is_file():
        named = re.search(
            r'^model_checkpoint_path: "(.*)"', (path / "checkpoint").read_text()
        )
        if named:  # relative to the folder, or absolute where it was written
            prefix = path / Path(named.group(1)).name
    elif path.suffix == ".index":
        prefix = path.with_suffix("")
    if not Path(f"{prefix}.index").is_file():
        raise FileNotFoundError(
            "A TensorFlow checkpoint must have a file PREFIX.index. Received: "
            f"{str(path)!r}, and there is no {str(prefix) + '.index'!r}. Pass "
            "the path up to and without `.index`, for example model.ckpt-0."
        )
    return str(prefix)


def read_checkpoint(prefix: str) -> Mapping[str, np.ndarray]:
    """The arrays of a checkpoint but for those of the optimizer.

    Args:
        prefix: path without `.index`.

    Returns:
        Dict of variable names and arrays.

    Raises:
        ValueError: if a file of it is damaged or missing.
    """
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(prefix)
        return {
            name: reader.get_tensor(name)
            for name in reader.get_variable_to_shape_map()
            if not _NO_WEIGHTS.match(name)
        }
    except Exception as error:  # of several classes, none of them public
        told = (str(error).splitlines() or [""])[0]
        raise ValueError(
            "The checkpoint must be whole: PREFIX.index and all of its "
            f"PREFIX.data-* files. Received: {prefix!r} "
            f"({type(error).__name__}: {told}). Copy them anew."
        ) from error


def _read_keys(config: dict[str, Any]) -> dict[str, Any]:
    if "n_token" in config:  # what its model function calls vocab_size
        config = {**config, "vocab_size": config["n_token"]}
        del config["n_token"]
    keys = read_keys(config, _DEFAULTS, _IGNORED)
    edges = list(keys["cutoffs"] or ())
    if edges[:1] == [0]:  # as in corpus-info.json, with both ends
        edges = edges[1:-1]
    return {**keys, "cutoffs": edges}


def _backbone_arguments(keys: dict[str, Any]) -> dict[str, Any]:
    tails = len(keys["cutoffs"])
    # Without clusters it uses the input's projection, whatever the flags.
    tied = [tails == 0] + [keys["proj_share_all_but_first"]] * tails
    return {
        **shared_arguments(keys),
        **bin_arguments(keys["cutoffs"], keys["div_val"], tied),
        "vocabulary_size": keys["vocab_size"],
        "attention_window": "memory_length+1" if keys["same_length"] else None,
        "share_attention_biases": not keys["untie_r"],
        "normalize_first": False,
        "layer_norm_epsilon": 1e-12,
        "tie_embeddings": True,
        "attend_empty_memory": True,
    }
