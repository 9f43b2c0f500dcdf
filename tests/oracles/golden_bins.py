"""Embedding and output weights of golden models with cutoffs.

Names are those of `adaptive_oracle.py`.
"""

from typing import Any

import numpy as np

from tests.oracles.model_oracle import Weights


def named_bins(raw: dict[str, np.ndarray], is_kim: bool) -> Weights:
    """Arrays of a state_dict under the oracle's names.

    The original reads the clusters last to first; here they are in order.
    """
    named: Weights = {}
    for index in range(_count(raw, "word_emb.emb_layers.{}.weight")):
        named[f"table_{index}"] = raw[f"word_emb.emb_layers.{index}.weight"]
    for index in range(_count(raw, "word_emb.emb_projs.{}")):
        named[f"projection_{index}"] = raw[f"word_emb.emb_projs.{index}"].T
    biases = []
    for index in range(_count(raw, "crit.out_layers.{}.bias")):
        layer = f"crit.out_layers.{index}"
        biases.append(raw[layer + ".bias"])
        if layer + ".weight" in raw:
            named[f"output_table_{index}"] = raw[layer + ".weight"]
    for key, array in raw.items():
        if key.startswith("crit.out_projs."):
            index = key.removeprefix("crit.out_projs.")
            named[f"output_projection_{index}"] = array
    if biases:
        named["output_bias"] = np.concatenate(biases)
        step = -1 if is_kim else 1
        named["cluster_kernel"] = raw["crit.cluster_weight"][::step]
        named["cluster_bias"] = raw["crit.cluster_bias"][::step]
    return named


def adaptive_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a backbone for a golden model with cutoffs."""
    tied_tables = arguments.get("tie_word_embeddings", True)
    shared = arguments.get("proj_share_all_but_first", True)
    return {
        "cutoffs": arguments["cutoffs"],
        "div_val": arguments["div_val"],
        "tie_embeddings": arguments.get("tie_weight", tied_tables),
        "tie_projections": arguments.get(
            "tie_projs", None if shared else False
        ),
    }


def _count(raw: dict[str, np.ndarray], key: str) -> int:
    count = 0
    while key.format(count) in raw:
        count += 1
    return count
