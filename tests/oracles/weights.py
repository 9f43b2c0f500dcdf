"""Weights between the oracle, the golden files and the library."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracles.golden import Curve
from tests.oracles.golden import Golden
from tests.oracles.golden_bins import adaptive_arguments
from tests.oracles.model_oracle import Weights
from tests.tolerances import to_numpy


@dataclass(frozen=True)
class Entry:
    """A variable of the library that stands for an array of the oracle."""

    variable: Any
    transposed: bool = False

    def to_oracle(self, values: np.ndarray) -> np.ndarray:
        """Values in the variable's layout in that of the oracle."""
        return values.T if self.transposed else values

    @property
    def weights(self) -> np.ndarray:
        """What the variable holds, in the oracle's layout and float64."""
        return self.to_oracle(to_numpy(self.variable)).astype(np.float64)


Entries = dict[str, Entry]

DISTANCE_TABLES = {
    "relative_key": "distance_keys",
    "distance_bias": "distance_biases",
    "relative_value": "distance_values",
}
"""Names of the oracle for what `PositionTerms.tables` gives."""


def randomize(layer: Any, seed: int, scale: float = 0.3) -> None:
    """Draw every weight, bias, norm, u and v from N(0, scale).

    Memory is no weight and keeps its values.
    """
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(0, scale, size=variable.shape))


def oracle_variables(lm: Any) -> Entries:
    """Every trainable variable of a `TransformerXLCausalLM`, once.

    Shared u and v are `content_bias` and `position_bias`; a tied table or
    projection appears under the name of the input. Tables of clipped
    distances, which the layers share, appear in each.
    """
    backbone = lm.backbone
    if backbone.cutoffs is None:
        entries = _plain_entries(lm)
    else:
        entries = adaptive_entries(
            backbone.token_embedding, lm.adaptive_softmax
        )
    if backbone.attention_biases is not None:  # shared by all layers
        first = backbone.transformer_layers[0]
        entries.update(_bias_entries(first.attention, ""))
    for index, block in enumerate(backbone.transformer_layers):
        prefix = f"layer_{index}."
        entries.update(_block_entries(block, prefix))
        if backbone.attention_biases is None:
            entries.update(_bias_entries(block.attention, prefix))
        if backbone.position == "absolute_learned":
            positions = backbone.absolute_positions[index]
            entries[prefix + "positions"] = Entry(positions.encoding.table)
    known = {id(entry.variable) for entry in entries.values()}
    unknown = [v.path for v in lm.trainable_variables if id(v) not in known]
    if unknown or len(known) != len(lm.trainable_variables):
        raise AssertionError(f"variables without a name: {unknown}")
    return entries


def _plain_entries(lm: Any) -> Entries:
    table = lm.backbone.token_embedding
    entries = {"embedding": Entry(table.embeddings)}
    if not table.tie_weights:
        entries["output_embedding"] = Entry(table.reverse_embeddings, True)
    projection = lm.backbone.embedding_projection
    if projection is not None:
        entries["embedding_projection"] = Entry(projection.kernel)
        if not projection.tie_weights:
            entries["output_projection"] = Entry(
                projection.reverse_kernel, True
            )
    entries["output_bias"] = Entry(lm.output_bias.bias)
    return entries


def adaptive_entries(embedding: Any, softmax: Any) -> Entries:
    """Variables of an adaptive embedding and softmax, each once.

    Names are those of `adaptive_oracle.py`; a tied table or projection
    appears under the name of the input.
    """
    entries = {
        "output_bias": Entry(softmax.bias),
        "cluster_kernel": Entry(softmax.cluster_kernel),
        "cluster_bias": Entry(softmax.cluster_bias),
    }
    groups = {
        "table": embedding.tables,
        "projection": embedding.projections,
        "output_table": softmax.tables,
        "output_projection": softmax.projections,
    }
    for name, variables in groups.items():
        for index, variable in enumerate(variables):
            if variable is not None:
                entries[f"{name}_{index}"] = Entry(variable)
    return entries


def adaptive_weights(embedding: Any, softmax: Any) -> Weights:
    """The same as arrays for `adaptive_oracle.py`, the tied ones twice."""
    weights = _weights(adaptive_entries(embedding, softmax))
    for index in range(len(embedding.tables)):
        weights.setdefault(f"output_table_{index}", weights[f"table_{index}"])
    for index in range(len(softmax.projections)):
        shared = min(index, len(embedding.projections) - 1)
        weights.setdefault(
            f"output_projection_{index}", weights[f"projection_{shared}"].T
        )
    return weights


def oracle_weights(lm: Any) -> Weights:
    """The weights of a `TransformerXLCausalLM` for `run_model`."""
    weights = _weights(oracle_variables(lm))
    weights.setdefault("output_embedding", weights["embedding"])
    if "embedding_projection" in weights:
        weights.setdefault("output_projection", weights["embedding_projection"])
    for name in ("content_bias", "position_bias"):
        if name in weights:
            shared = weights.pop(name)
            for index in range(lm.backbone.num_layers):
                weights[f"layer_{index}.{name}"] = shared
    return weights


def golden_lm(golden: Golden | Curve, **overrides: Any) -> Any:
    """A `TransformerXLCausalLM` with the weights of a golden file."""
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM

    arguments, config = golden.arguments, golden.config
    backbone = TransformerXLBackbone(
        **{
            "vocabulary_size": len(golden.weights["output_bias"]),
            "num_layers": arguments["n_layer"],
            "num_heads": arguments["n_head"],
            "hidden_dim": arguments["d_model"],
            "intermediate_dim": arguments["d_inner"],
            "head_dim": arguments["d_head"],
            "embedding_dim": arguments["d_embed"],
            "memory_length": golden.memory_length,
            "attention_window": config.attention_window,
            "clamp_length": config.clamp_length,
            "share_attention_biases": not (
                arguments.get("untie_r", False)
                or config.position == "relative_learned"
            ),
            "position": config.position,
            "max_distance": getattr(golden, "max_distance", None),
            "normalize_first": config.normalize_first,
            "layer_norm_epsilon": config.layer_norm_epsilon,
            "dropout": 0.0,
            "tie_embeddings": arguments.get("tie_weight", True),
            "tie_projections": arguments.get("tie_projs", [False])[0],
            "attend_empty_memory": config.attend_empty_memory,
            **(
                adaptive_arguments(arguments)
                if arguments.get("cutoffs")
                else {}
            ),
            **overrides,
        }
    )
    lm = TransformerXLCausalLM(backbone)
    randomize(lm, seed=0)  # what is not loaded must show
    for name, entry in oracle_variables(lm).items():
        entry.variable.assign(entry.to_oracle(golden.weights[name]))
    return lm


def attention_weights(attention: Any) -> Weights:
    """The weights of a `RelativeMultiHeadAttention`, without a prefix."""
    return _weights(
        {**_attention_entries(attention, ""), **_bias_entries(attention, "")}
    )


def block_weights(block: Any, prefix: str) -> Weights:
    """The weights of a `TransformerXLBlock`."""
    return _weights(
        {
            **_block_entries(block, prefix),
            **_bias_entries(block.attention, prefix),
        }
    )


def _attention_entries(attention: Any, prefix: str) -> Entries:
    names = ["query", "key", "value", "output"]
    terms = attention.position_terms
    if terms is None:
        names.append("relative_key")
    entries = {
        f"{prefix}{name}": Entry(
            getattr(attention, f"{name}_projection").kernel
        )
        for name in names
    }
    for name, table in ({} if terms is None else terms.tables()).items():
        entries[prefix + DISTANCE_TABLES[name]] = Entry(table.table)
    return entries


def _bias_entries(attention: Any, prefix: str) -> Entries:
    """u and v, where the scheme of positions has them."""
    return {
        f"{prefix}{name}": Entry(getattr(attention.attention_biases, name))
        for name in ("content_bias", "position_bias")
        if getattr(attention.attention_biases, name, None) is not None
    }


def _block_entries(block: Any, prefix: str) -> Entries:
    variables = {
        "attention_norm_gain": block.attention_norm.gamma,
        "attention_norm_bias": block.attention_norm.beta,
        "intermediate_kernel": block.intermediate.kernel,
        "intermediate_bias": block.intermediate.bias,
        "feedforward_kernel": block.projection.kernel,
        "feedforward_bias": block.projection.bias,
        "feedforward_norm_gain": block.feed_forward_norm.gamma,
        "feedforward_norm_bias": block.feed_forward_norm.beta,
    }
    if block.memory_layer_norm:
        variables["memory_norm_gain"] = block.memory_norm.gamma
        variables["memory_norm_bias"] = block.memory_norm.beta
    return {
        **_attention_entries(block.attention, prefix),
        **{f"{prefix}{name}": Entry(v) for name, v in variables.items()},
    }


def _weights(entries: Entries) -> Weights:
    return {name: entry.weights for name, entry in entries.items()}
