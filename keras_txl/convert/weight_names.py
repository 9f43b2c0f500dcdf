"""Where the weights of a model stand in the checkpoints of other code.

Axes: L layers, N heads, H head width.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_txl.convert.embedding_names import pytorch_embeddings
from keras_txl.convert.embedding_names import tensorflow_embeddings
from keras_txl.convert.weight_layout import SourceArray
from keras_txl.convert.weight_layout import as_is
from keras_txl.convert.weight_layout import constant
from keras_txl.convert.weight_layout import matrix
from keras_txl.convert.weight_layout import stacked


def pytorch_names(lm: Any, prefix: str = "") -> list[SourceArray]:
    """Names in a state_dict of the original, or of Hugging Face.

    Args:
        lm: a `TransformerXLCausalLM`.
        prefix: `"transformer."` for Hugging Face. All but the output layer
            stands below it.
    """
    return [
        *pytorch_embeddings(lm, prefix),
        *_pytorch_biases(lm, prefix),
        *_pytorch_positions(lm, prefix),
        *(
            entry
            for index in range(lm.backbone.num_layers)
            for entry in _pytorch_block(lm, index, prefix)
        ),
    ]


def _pytorch_biases(lm: Any, prefix: str) -> Iterator[SourceArray]:
    """u and v, or u alone."""
    blocks = lm.backbone.transformer_layers
    biases = [block.attention.attention_biases for block in blocks]
    layers = [f"{prefix}layers.{i}.dec_attn." for i in range(len(blocks))]
    for name, attribute in (
        ("r_w_bias", "content_bias"),
        ("r_r_bias", "position_bias"),
    ):
        variables = [getattr(each, attribute, None) for each in biases]
        if variables[0] is None:
            continue
        if lm.backbone.attention_biases is not None:
            # Hugging Face repeats the shared ones in each layer.
            copies = [layer + name for layer in layers] if prefix else []
            yield as_is([prefix + name, *copies], variables[0])
        elif lm.backbone.position == "relative_learned":
            yield stacked([name], variables)  # (L, N, H)
        else:
            for layer, variable in zip(layers, variables, strict=True):
                yield as_is([layer + name], variable)


def _pytorch_positions(lm: Any, prefix: str) -> Iterator[SourceArray]:
    """What the original calls attn_type 0, 1, 2 and 3, in this order."""
    backbone = lm.backbone
    if backbone.position in ("relative_sinusoidal", "absolute_sinusoidal"):
        # Of the version that wrote the file: a last digit may differ.
        yield constant(
            [f"{prefix}pos_emb.inv_freq"],
            _inverse_frequencies(backbone.hidden_dim),
            tolerance=1e-6,
        )
    if backbone.position == "relative_learned":
        terms = [
            block.attention.position_terms
            for block in backbone.transformer_layers
        ]
        keys = [each.distance_keys.table for each in terms]
        yield stacked(["r_emb"], keys)  # (L, max_distance, N, H)
        yield stacked(
            ["r_bias"], [each.distance_biases.table for each in terms]
        )
    if backbone.position == "absolute_learned":
        tables = [each.encoding.table for each in backbone.absolute_positions]
        heads = (backbone.num_heads, backbone.head_dim)
        yield stacked(["r_emb"], tables, last_axes=heads)


def _pytorch_block(lm: Any, index: int, prefix: str) -> Iterator[SourceArray]:
    block = lm.backbone.transformer_layers[index]
    attention = block.attention
    name = f"{prefix}layers.{index}.dec_attn."
    query = attention.query_projection.kernel
    key_value = [
        attention.key_projection.kernel,
        attention.value_projection.kernel,
    ]
    if lm.backbone.position.startswith("relative"):
        yield matrix(
            [name + "qkv_net.weight"], [query, *key_value], outputs_first=True
        )
    else:
        yield matrix([name + "q_net.weight"], [query], outputs_first=True)
        yield matrix([name + "kv_net.weight"], key_value, outputs_first=True)
    if lm.backbone.position == "relative_sinusoidal":
        yield matrix(
            [name + "r_net.weight"],
            [attention.relative_key_projection.kernel],
            outputs_first=True,
        )
    yield matrix(
        [name + "o_net.weight"],
        [attention.output_projection.kernel],
        input_axes=2,
        outputs_first=True,
    )
    yield as_is([name + "layer_norm.weight"], block.attention_norm.gamma)
    yield as_is([name + "layer_norm.bias"], block.attention_norm.beta)
    name = f"{prefix}layers.{index}.pos_ff."
    for number, dense in ((0, block.intermediate), (3, block.projection)):
        layer = f"{name}CoreNet.{number}."
        yield matrix([layer + "weight"], [dense.kernel], outputs_first=True)
        yield as_is([layer + "bias"], dense.bias)
    yield as_is([name + "layer_norm.weight"], block.feed_forward_norm.gamma)
    yield as_is([name + "layer_norm.bias"], block.feed_forward_norm.beta)


def tensorflow_names(
    lm: Any, project_same_dim: bool = True
) -> list[SourceArray]:
    """Names in a checkpoint of the original TensorFlow code.

    Args:
        lm: a `TransformerXLCausalLM`.
        project_same_dim: bool. Whether bins as wide as the hidden states
            have projections there.
    """
    return [
        *tensorflow_embeddings(lm, project_same_dim),
        *_tensorflow_biases(lm),
        *(
            entry
            for index in range(lm.backbone.num_layers)
            for entry in _tensorflow_block(lm, index)
        ),
    ]


def _tensorflow_biases(lm: Any) -> Iterator[SourceArray]:
    """u and v: one array, with a layer axis unless they are shared."""
    shared = lm.backbone.attention_biases
    if shared is not None:
        yield as_is(["transformer/r_w_bias"], shared.content_bias)
        yield as_is(["transformer/r_r_bias"], shared.position_bias)
        return
    biases = [
        block.attention.attention_biases
        for block in lm.backbone.transformer_layers
    ]
    yield stacked(
        ["transformer/r_w_bias"], [each.content_bias for each in biases]
    )  # (L, N, H)
    yield stacked(
        ["transformer/r_r_bias"], [each.position_bias for each in biases]
    )


def _tensorflow_block(lm: Any, index: int) -> Iterator[SourceArray]:
    block = lm.backbone.transformer_layers[index]
    attention = block.attention
    name = f"transformer/layer_{index}/rel_attn/"
    yield matrix(
        [name + "qkv/kernel"],
        [
            attention.query_projection.kernel,
            attention.key_projection.kernel,
            attention.value_projection.kernel,
        ],
    )
    yield matrix(
        [name + "r/kernel"], [attention.relative_key_projection.kernel]
    )
    yield matrix(
        [name + "o/kernel"], [attention.output_projection.kernel], input_axes=2
    )
    yield as_is([name + "LayerNorm/gamma"], block.attention_norm.gamma)
    yield as_is([name + "LayerNorm/beta"], block.attention_norm.beta)
    name = f"transformer/layer_{index}/ff/"
    for layer, dense in (
        ("layer_1/", block.intermediate),
        ("layer_2/", block.projection),
    ):
        yield as_is([name + layer + "kernel"], dense.kernel)
        yield as_is([name + layer + "bias"], dense.bias)
    yield as_is([name + "LayerNorm/gamma"], block.feed_forward_norm.gamma)
    yield as_is([name + "LayerNorm/beta"], block.feed_forward_norm.beta)


def _inverse_frequencies(hidden_dim: int) -> np.ndarray:
    exponents = np.arange(0, hidden_dim, 2, dtype="float32") / np.float32(
        hidden_dim
    )
    return np.asarray(1 / 10000**exponents, dtype="float32")
