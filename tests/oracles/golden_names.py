"""Weights of the golden models under the oracle's names."""

from typing import Any

import numpy as np

from tests.oracles.golden_bins import named_bins
from tests.oracles.model_oracle import Weights

# attn_type of the original.
SCHEMES = (
    "relative_sinusoidal",
    "relative_learned",
    "absolute_sinusoidal",
    "absolute_learned",
)


def named_weights(
    raw: dict[str, np.ndarray], arguments: dict[str, Any]
) -> Weights:
    """Arrays under the oracle's names; those that are absent stay absent.

    Biases that all layers share are `content_bias` and `position_bias`
    besides the copies that each layer gets.
    """
    heads = (arguments["n_head"], arguments["d_head"])
    hidden_dim = arguments["d_model"]
    named: Weights = {}

    def put(name: str, key: str) -> None:
        if key in raw:
            named[name] = raw[key]

    def put_transposed(name: str, key: str, shape: tuple[int, ...]) -> None:
        if key in raw:
            named[name] = raw[key].T.reshape(shape)

    if arguments.get("cutoffs"):
        named |= named_bins(raw, is_kim="n_token" in arguments)
    else:
        put("embedding", "word_emb.emb_layers.0.weight")
        if "word_emb.emb_projs.0" in raw:
            named["embedding_projection"] = raw["word_emb.emb_projs.0"].T
        put("output_embedding", "crit.out_layers.0.weight")
        if "crit.out_projs.0" in raw:
            named["output_projection"] = raw["crit.out_projs.0"].T
        put("output_bias", "crit.out_layers.0.bias")
    scheme = SCHEMES[arguments.get("attn_type", 0)]
    if scheme == "relative_sinusoidal" and not arguments.get("untie_r", False):
        put("content_bias", "r_w_bias")
        put("position_bias", "r_r_bias")
    for layer in range(arguments["n_layer"]):
        new = f"layer_{layer}."
        attention = f"layers.{layer}.dec_attn."
        feedforward = f"layers.{layer}.pos_ff."
        if attention + "qkv_net.weight" in raw:
            thirds = np.split(raw[attention + "qkv_net.weight"], 3)
        elif attention + "q_net.weight" in raw:
            halves = np.split(raw[attention + "kv_net.weight"], 2)
            thirds = [raw[attention + "q_net.weight"], *halves]
        else:
            thirds = []
        for name, third in zip(("query", "key", "value"), thirds):
            named[new + name] = third.T.reshape(hidden_dim, *heads)
        put_transposed(
            new + "relative_key",
            attention + "r_net.weight",
            (hidden_dim, *heads),
        )
        put_transposed(
            new + "output", attention + "o_net.weight", (*heads, hidden_dim)
        )
        for name, key in (
            ("content_bias", "r_w_bias"),
            ("position_bias", "r_r_bias"),
        ):
            put(new + name, key)
            put(new + name, attention + key)
        _put_position_tables(scheme, raw, new, layer, named)
        put(new + "attention_norm_gain", attention + "layer_norm.weight")
        put(new + "attention_norm_bias", attention + "layer_norm.bias")
        inner = arguments["d_inner"]
        put_transposed(
            new + "intermediate_kernel",
            feedforward + "CoreNet.0.weight",
            (hidden_dim, inner),
        )
        put(new + "intermediate_bias", feedforward + "CoreNet.0.bias")
        put_transposed(
            new + "feedforward_kernel",
            feedforward + "CoreNet.3.weight",
            (inner, hidden_dim),
        )
        put(new + "feedforward_bias", feedforward + "CoreNet.3.bias")
        put(new + "feedforward_norm_gain", feedforward + "layer_norm.weight")
        put(new + "feedforward_norm_bias", feedforward + "layer_norm.bias")
    return named


def _put_position_tables(
    scheme: str,
    raw: dict[str, np.ndarray],
    prefix: str,
    layer: int,
    named: Weights,
) -> None:
    """Tables of attn_type 1 and 3: one array for all layers in the file."""
    if "r_emb" not in raw:
        return
    table = raw["r_emb"][layer]  # (R, N, H)
    if scheme == "relative_learned":
        named[prefix + "content_bias"] = raw["r_w_bias"][layer]
        named[prefix + "distance_keys"] = table
        named[prefix + "distance_biases"] = raw["r_bias"][layer]
    else:
        # The original splits the hidden width by heads for the table alone.
        named[prefix + "positions"] = table.reshape(len(table), -1)
