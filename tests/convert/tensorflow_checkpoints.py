"""Checkpoints with the names of the authors' TensorFlow code.

The mapping of names and layouts is written here from that code
(`tf/model.py`), apart from the one in the library.
"""

import numpy as np
import tensorflow as tf


def tensorflow_config(config):
    """Flags of train_gpu.py for a TransfoXL configuration."""
    same = (
        "cutoffs n_layer n_head d_model d_head d_inner d_embed dropout "
        "dropatt untie_r div_val mem_len same_length clamp_len "
        "proj_share_all_but_first"
    ).split()
    return {
        "vocab_size": config["vocab_size"],
        **{key: config[key] for key in same},
    }


def tensorflow_arrays(source, config=None):
    """The weights of a Hugging Face model under the TensorFlow names."""
    config = source.config if config is None else config
    w = {
        key.removeprefix("transformer."): array
        for key, array in source.weights.items()
    }
    arrays = {}
    for u_or_v in ("r_w_bias", "r_r_bias"):
        layers = [
            w[f"layers.{i}.dec_attn.{u_or_v}"] for i in range(config["n_layer"])
        ]
        arrays[f"transformer/{u_or_v}"] = (
            np.stack(layers) if config["untie_r"] else layers[0]
        )
    for i in range(config["n_layer"]):
        layer, attention = f"transformer/layer_{i}/", f"layers.{i}.dec_attn."
        for there, here in (("qkv", "qkv_net"), ("r", "r_net"), ("o", "o_net")):
            arrays[f"{layer}rel_attn/{there}/kernel"] = w[
                f"{attention}{here}.weight"
            ].T
        feed_forward = f"layers.{i}.pos_ff."
        for number, place in ((1, 0), (2, 3)):
            dense = f"{feed_forward}CoreNet.{place}."
            arrays[f"{layer}ff/layer_{number}/kernel"] = w[dense + "weight"].T
            arrays[f"{layer}ff/layer_{number}/bias"] = w[dense + "bias"]
        for there, here in (("rel_attn", attention), ("ff", feed_forward)):
            norm = f"{layer}{there}/LayerNorm/"
            arrays[norm + "gamma"] = w[here + "layer_norm.weight"]
            arrays[norm + "beta"] = w[here + "layer_norm.bias"]
    arrays.update(_tensorflow_bins(w, config))
    return arrays


def _tensorflow_bins(w, config):
    arrays = {}
    embed, softmax = (
        "transformer/adaptive_embed/",
        "transformer/adaptive_softmax/",
    )
    tails = len(config["cutoffs"])
    for i in range(tails + 1):
        if i > 0 and config["div_val"] == 1:
            break
        place = f"cutoff_{i}/" if config["div_val"] > 1 else ""
        arrays[f"{embed}{place}lookup_table"] = w[
            f"word_emb.emb_layers.{i}.weight"
        ]
        if f"word_emb.emb_projs.{i}" in w:
            arrays[f"{embed}{place}proj_W"] = w[f"word_emb.emb_projs.{i}"].T
    if not tails:
        return {**arrays, softmax + "bias": w["crit.out_layers.0.bias"]}
    arrays[softmax + "cutoff_0/cluster_W"] = w["crit.cluster_weight"]
    arrays[softmax + "cutoff_0/cluster_b"] = w["crit.cluster_bias"]
    edges = [0, *config["cutoffs"], config["vocab_size"]]
    for i, first in enumerate(edges[:-1]):
        place = f"{softmax}cutoff_{i}/"
        if config["div_val"] > 1:
            arrays[place + "b"] = w[f"crit.out_layers.{i}.bias"]
        else:
            bias = w["crit.out_layers.0.bias"]
            arrays[place + "b"] = bias[first : edges[i + 1]]
        shared = config["proj_share_all_but_first"] and i > 0
        if f"crit.out_projs.{i}" in w and not shared:
            arrays[place + "proj"] = w[f"crit.out_projs.{i}"].T
    return arrays


def write_checkpoint(prefix, arrays):
    """Write arrays as a training run of that code does, with its slots."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, array in arrays.items():
            v1.get_variable(name, initializer=np.ascontiguousarray(array))
            for slot in ("Adam", "Adam_1"):
                v1.get_variable(
                    f"{name}/{slot}", initializer=np.zeros_like(array)
                )
        v1.get_variable("beta1_power", initializer=np.float32(0.9))
        v1.get_variable("beta2_power", initializer=np.float32(0.999))
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(prefix), write_meta_graph=False)
