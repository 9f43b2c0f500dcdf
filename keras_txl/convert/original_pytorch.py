"""Models of the authors' PyTorch code, there and back.

The code is kimiyoung/transformer-xl, `pytorch/mem_transformer.py`, class
`MemTransformerLM`.
"""

from typing import Any

import numpy as np

from keras_txl.convert.model_building import build_model
from keras_txl.convert.source_config import REQUIRED
from keras_txl.convert.source_config import bin_arguments
from keras_txl.convert.source_config import read_keys
from keras_txl.convert.source_config import refuse_extended_context
from keras_txl.convert.source_config import refuse_sampled_softmax
from keras_txl.convert.source_config import refuse_square_projection
from keras_txl.convert.source_config import shared_arguments
from keras_txl.convert.weight_files import read_source
from keras_txl.convert.weight_layout import assign_weights
from keras_txl.convert.weight_layout import read_weights
from keras_txl.convert.weight_names import pytorch_names
from keras_txl.models import TransformerXLCausalLM

# The constructor's arguments and their defaults there.
_DEFAULTS: dict[str, Any] = {
    "n_token": REQUIRED,
    "n_layer": REQUIRED,
    "n_head": REQUIRED,
    "d_model": REQUIRED,
    "d_head": REQUIRED,
    "d_inner": REQUIRED,
    "dropout": 0.0,
    "dropatt": 0.0,
    "tie_weight": True,
    "d_embed": None,
    "div_val": 1,
    "tie_projs": [False],
    "pre_lnorm": False,
    "tgt_len": None,
    "ext_len": 0,
    "mem_len": 0,
    "cutoffs": [],
    "same_length": False,
    "attn_type": 0,
    "clamp_len": -1,
    "sample_softmax": -1,
    "init_std": 0.02,
}
_POSITIONS = {
    0: "relative_sinusoidal",
    1: "relative_learned",
    2: "absolute_sinusoidal",
    3: "absolute_learned",
}
_IGNORED = ("adapt_inp",)  # an argument that the constructor does not read


def from_original_pytorch(
    config: Any, weights: Any = None, **backbone_overrides: Any
) -> TransformerXLCausalLM:
    """Build a model of the authors' PyTorch code with its weights.

    The conventions of that code are set: an empty memory is no memory,
    `same_length` shows each query `mem_len` keys (the paper's TensorFlow code
    shows one more), u and v are shared, the norms have epsilon 1e-5, and the
    rows of the clusters are used last to first. With attn_type 2 and 3 that
    code adds positions into its memory again in each segment; ours never
    does, so the two agree without memory and in the first segment.

    Args:
        config: dict of the constructor arguments of `MemTransformerLM`, path
            of a JSON file with them, or a folder with `config.json` and
            weights.
        weights: mapping of state_dict names to arrays, path of a
            `.safetensors`, `.bin`, `.pt` or `.npz` file, or a folder with
            one. `None`: the folder given as `config`. Pickled models are
            refused: they can run code.
        **backbone_overrides: arguments of `TransformerXLBackbone` that
            replace the source's, for example `batch_size`, `dtype`,
            `memory_length`, `eval_attention_window`.

    Returns:
        A `TransformerXLCausalLM` without a preprocessor.

    Raises:
        ValueError: if a key of `config` is missing or unknown or asks for
            what we do not have (`ext_len`), or if weights do not fit.

    Example:
    ```python
    weights = keras_txl.convert.to_original_pytorch(lm)
    config = dict(n_token=17, n_layer=2, n_head=2, d_model=8, d_head=4,
                  d_inner=16, mem_len=6)
    lm = keras_txl.convert.from_original_pytorch(config, weights, batch_size=4)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860).
    """
    config, arrays, source = read_source(config, weights)
    arguments = _backbone_arguments(config)
    lm = build_model(arguments, backbone_overrides)
    assign_weights(lm, pytorch_names(lm), arrays, source)
    return lm


def to_original_pytorch(lm: TransformerXLCausalLM) -> dict[str, np.ndarray]:
    """The weights of a model for the authors' PyTorch code.

    Memory, window and clamping are arguments there and no weights: pass
    `mem_len`, `same_length` and `clamp_len` to the constructor.

    Args:
        lm: a `TransformerXLCausalLM`.

    Returns:
        Dict of state_dict names and float32 arrays, tied ones under each of
        their names. `load_state_dict` takes it after
        `{name: torch.from_numpy(array) for ...}`.

    Raises:
        ValueError: if that code cannot compute what the model does.
    """
    backbone = lm.backbone
    position = backbone.position
    if position not in _POSITIONS.values():
        raise ValueError(
            "The original PyTorch code has the positions "
            f"{', '.join(map(repr, _POSITIONS.values()))} alone. Received: a "
            f"model with position={position!r}."
        )
    shared = position != "relative_learned"
    fixed: dict[str, tuple[Any, Any]] = {
        "share_attention_biases": (backbone.share_attention_biases, shared),
        "layer_norm_epsilon": (backbone.layer_norm_epsilon, 1e-5),
        "activation": (backbone.activation.__name__, "relu"),
        "attend_empty_memory": (backbone.attend_empty_memory, False),
        "attention_logit_cap": (backbone.attention_logit_cap, None),
        "memory_layer_norm": (backbone.memory_layer_norm, False),
    }
    if position.startswith("absolute"):  # normalizes keys alone there
        fixed["normalize_first"] = (backbone.normalize_first, False)
        del fixed["share_attention_biases"]  # there are none
    if backbone.attention_window is not None:
        fixed["attention_window"] = (backbone.attention_window, "memory_length")
    other = {key: pair for key, pair in fixed.items() if pair[0] != pair[1]}
    if other:
        found = ", ".join(f"{key}={pair[0]!r}" for key, pair in other.items())
        needed = ", ".join(f"{key}={pair[1]!r}" for key, pair in other.items())
        raise ValueError(
            "The original PyTorch code has no switch for what this model "
            f"does. Received: {found}; it needs {needed}. Train a model with "
            "those arguments, or keep this one here."
        )
    return read_weights(lm, pytorch_names(lm))


def _backbone_arguments(config: dict[str, Any]) -> dict[str, Any]:
    keys = read_keys(config, _DEFAULTS, _IGNORED)
    refuse_extended_context(keys)
    refuse_sampled_softmax(keys)
    refuse_square_projection(keys)
    return {
        **shared_arguments(keys),
        **_position_arguments(keys),
        **bin_arguments(keys["cutoffs"], keys["div_val"], keys["tie_projs"]),
        "vocabulary_size": keys["n_token"],
        "attention_window": "memory_length" if keys["same_length"] else None,
        "normalize_first": keys["pre_lnorm"],
        "layer_norm_epsilon": 1e-5,
        "tie_embeddings": keys["tie_weight"],
        "attend_empty_memory": False,
    }


def _position_arguments(keys: dict[str, Any]) -> dict[str, Any]:
    attn_type = keys["attn_type"]
    if attn_type not in _POSITIONS:
        raise ValueError(
            "`attn_type` must be 0, 1, 2 or 3. Received: attn_type="
            f"{attn_type!r}. Leave it out for 0, the attention of the paper."
        )
    if attn_type in (2, 3) and keys["pre_lnorm"]:
        raise ValueError(
            "`pre_lnorm` must be False with attn_type 2 and 3: the original "
            "then normalizes keys and values but not queries, which no model "
            f"here does. Received: attn_type={attn_type}, pre_lnorm=True. "
            "Only post-norm models of these types can be read."
        )
    arguments = {
        "position": _POSITIONS[attn_type],
        # attn_type 1 has a u of each layer, and no v.
        "share_attention_biases": attn_type != 1,
    }
    if attn_type in (1, 3):
        if keys["tgt_len"] is None:
            raise ValueError(
                "`tgt_len` is needed with attn_type 1 and 3: their tables have "
                "tgt_len + mem_len rows. Received: attn_type="
                f"{attn_type}, tgt_len=None. Pass the tgt_len of the run that "
                "wrote the weights."
            )
        arguments["max_distance"] = keys["tgt_len"] + (keys["mem_len"] or 0)
    if attn_type == 3:  # the original does not clamp there
        arguments["clamp_length"] = None
    return arguments
