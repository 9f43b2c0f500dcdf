"""Configurations of `run.py`, its peers, and the work that a step needs."""

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {
    "char-small": {
        **{"d_model": 256, "n_layer": 4, "n_head": 4, "d_head": 64},
        **{"d_inner": 1024, "tgt_len": 128, "mem_len": 128, "batch": 16},
        **{"vocab": 256, "cutoffs": []},
    },
    "enwik8-base": {
        **{"d_model": 512, "n_layer": 12, "n_head": 8, "d_head": 64},
        **{"d_inner": 2048, "tgt_len": 128, "mem_len": 128, "batch": 4},
        **{"vocab": 204, "cutoffs": []},
    },
    "wt103": {
        **{"d_model": 410, "n_layer": 4, "n_head": 10, "d_head": 41},
        **{"d_inner": 2100, "tgt_len": 150, "mem_len": 150, "batch": 8},
        **{"vocab": 20000, "cutoffs": [2000, 5000, 12000]},
    },
    "tiny": {
        **{"d_model": 32, "n_layer": 1, "n_head": 1, "d_head": 32},
        **{"d_inner": 64, "tgt_len": 16, "mem_len": 16, "batch": 2},
        **{"vocab": 64, "cutoffs": []},
    },
}

SWEEPS: dict[str, dict[str, Any]] = {
    axis: {
        "config": "char-small",
        "mode": mode,
        "keys": [key],
        "values": values,
    }
    for axis, key, mode, values in (
        ("T", "tgt_len", "train", [32, 128, 512]),
        ("M", "mem_len", "eval", [0, 512, 1024, 2048]),
        ("B", "batch", "train", [1, 4, 32]),
        ("D", "d_model", "train", [128, 512, 1024]),
        ("L", "n_layer", "train", [1, 2, 8]),
    )
}

TENSORFLOW_PEERS = [
    "keras_transformer_xl",
    "tfm_transformer_xl",
    "tfm_transformer_xl_xla",
]
PEERS = [
    "hf_transfoxl",
    "hf_transfoxl_compile",
    "x_transformers",
    "x_transformers_rotary_flash",
    "x_transformers_compile",
    "x_transformers_kvcache",
    *TENSORFLOW_PEERS,
]
GENERATION_ONLY = "x_transformers_kvcache"  # has no other mode


def token_weights(vocabulary_size: int) -> Any:
    """Probability of each id: Zipf's law, as in words."""
    import numpy as np

    weights = 1.0 / (np.arange(vocabulary_size) + 2.7)
    return weights / weights.sum()


def flops(config: dict[str, Any], mode: str) -> float:
    """Multiply-adds, times two, that a step needs, whatever is spent.

    For each layer and row the products of queries, keys, values, output and
    feed-forward network, content, position and values; once a layer those of
    the distances; the logits, of an adaptive softmax those expected. Keys and
    values of the memory count; training is three times evaluation.
    """
    width, vocabulary = config["d_model"], config["vocab"]
    heads = config["n_head"] * config["d_head"]
    tokens, batch = config["tgt_len"], config["batch"]
    keys = tokens + config["mem_len"]
    row = (
        tokens * width * heads * 2
        + 2 * keys * width * heads
        + 2 * tokens * width * config["d_inner"]
        + 3 * tokens * keys * heads
    )
    logits = float(vocabulary)
    if config["cutoffs"]:
        share = token_weights(vocabulary)
        ends = [*config["cutoffs"], vocabulary]
        logits = ends[0] + len(config["cutoffs"])
        for begin, end in zip(ends[:-1], ends[1:], strict=True):
            logits += float(share[begin:end].sum()) * (end - begin)
    products = config["n_layer"] * (batch * row + keys * width * heads)
    products += batch * tokens * width * logits
    return 2.0 * products * (3 if mode == "train" else 1)
