"""Blocks and the rule of memory against TensorFlow Model Garden.

Its Transformer-XL takes embedded tokens, the matrix R and a mask; where the
files come from is told in `tests/oracles/golden/README.md`.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from keras import ops

from tests import tolerances
from tests.oracles.golden import FOLDER
from tests.oracles.golden import GARDEN
from tests.oracles.gradients import compiled
from tests.oracles.gradients import gradients_of
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

EPSILON = 1e-12  # of its layer norms


@dataclass
class Garden:
    """A stack of our blocks with the weights of a file."""

    raw: dict[str, np.ndarray]
    memory_length: int
    blocks: list[Any]
    variables: dict[str, Any]

    @property
    def num_segments(self):
        return sum(key.endswith("/input") for key in self.raw)


def load(name):
    from keras_txl.layers import TransformerXLBlock

    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as archive:
        raw = {key: archive[key] for key in archive.files}
    arguments = json.loads(str(raw["config"]))["ctor"]
    hidden_dim = arguments["hidden_size"]
    blocks, variables = [], {}
    biases = None
    for index in range(arguments["num_layers"]):
        block = TransformerXLBlock(
            arguments["num_attention_heads"],
            arguments["head_size"],
            arguments["inner_size"],
            activation=arguments["inner_activation"],
            layer_norm_epsilon=EPSILON,
            attention_biases=biases,
        )
        block.build((None, None, hidden_dim))
        if arguments["tie_attention_biases"]:
            biases = block.attention.attention_biases
        for key, variable in named_variables(block, index).items():
            variables[key] = variable
            variable.assign(weight(raw, key, index))
        blocks.append(block)
    return Garden(raw, arguments["memory_length"], blocks, variables)


def named_variables(block, index):
    """Variables of a block under the names of the file."""
    attention = block.attention
    prefix = f"transformer_xl/layer_{index}/"
    biases = attention.attention_biases
    kernels = {
        "query": attention.query_projection,
        "key": attention.key_projection,
        "value": attention.value_projection,
        "encoding": attention.relative_key_projection,
        "attention_output": attention.output_projection,
    }
    dense = {"inner": block.intermediate, "output": block.projection}
    norms = {
        "self_attention_layer_norm": block.attention_norm,
        "output_layer_norm": block.feed_forward_norm,
    }
    return {
        "content_attention_bias": biases.content_bias,
        "positional_attention_bias": biases.position_bias,
        **{
            f"{prefix}rel_attn/{name}/kernel": layer.kernel
            for name, layer in kernels.items()
        },
        **{f"{prefix}{name}/kernel": dense[name].kernel for name in dense},
        **{f"{prefix}{name}/bias": dense[name].bias for name in dense},
        **{f"{prefix}{name}/gamma": norms[name].gamma for name in norms},
        **{f"{prefix}{name}/beta": norms[name].beta for name in norms},
    }


def weight(raw, key, index):
    values = raw[f"w/{key}:0"]
    is_bias = key.endswith("attention_bias")
    return values[index] if is_bias and values.ndim == 3 else values


def run(garden, hidden, states, encoding, mask):
    """Output and the input of each block; `states` `(L, B, m, D)`."""
    inputs = []
    for block, memory in zip(garden.blocks, states, strict=True):
        inputs.append(hidden)
        context = ops.concatenate([memory, hidden], axis=1)
        hidden = block(hidden, context, encoding, mask)
    return hidden, inputs


def segment_arguments(garden, number):
    """What `run` takes for a segment, as arrays of the file."""
    raw, prefix = garden.raw, f"s{number}/"
    hidden = raw[prefix + "input"]
    states = np.zeros((len(garden.blocks), len(hidden), 0, hidden.shape[-1]))
    if number:
        states = raw[f"s{number - 1}/mems_out"]
    # Its table starts one distance further than any key can be.
    encoding = raw[prefix + "relative_position_encoding"][0, 1:]
    mask = raw[prefix + "attention_mask"][None, None] > 0
    return hidden, states.astype("float32"), encoding, mask


@pytest.mark.parametrize("name", GARDEN)
def test_outputs_and_memory_of_every_segment(name):
    from keras_txl.layers.segment_memory import update_memory

    garden = load(name)
    slots = garden.memory_length
    execute = compiled(lambda *arguments: run(garden, *arguments))
    for number in range(garden.num_segments):
        hidden, states, encoding, mask = segment_arguments(garden, number)
        output, inputs = execute(hidden, states, encoding, mask)
        what = f"{name}, segment {number}: "
        assert_close(
            output,
            garden.raw[f"s{number}/output"],
            tolerances.FLOAT32,
            what + "output",
        )
        batch, length = hidden.shape[:2]
        known = states.shape[2]
        for layer, layer_input in enumerate(inputs):
            empty = np.zeros((batch, slots - known, hidden.shape[-1]))
            context = np.concatenate(
                [empty, states[layer], to_numpy(layer_input)], 1
            )
            assert_close(
                update_memory(
                    ops.convert_to_tensor(context.astype("float32")),
                    ops.full((batch,), length, dtype="int32"),
                    ops.full(
                        (batch,), min(slots, known + length), dtype="int32"
                    ),
                    slots,
                ),
                garden.raw[f"s{number}/mems_out"][layer],
                tolerances.FLOAT32,
                what + f"memory of block {layer}",
            )


def test_the_given_matrix_is_the_sinusoid_of_the_distances():
    from keras_txl.layers import SinusoidalDistanceEncoding

    garden = load("tfm_transformer_xl")
    hidden, states, encoding, _ = segment_arguments(garden, 1)
    context = np.concatenate([states[0], hidden], axis=1)
    layer = SinusoidalDistanceEncoding(hidden.shape[-1])
    assert_close(layer(context), encoding, tolerances.FLOAT32, "R")


def test_gradients_of_every_weight():
    garden = load("tfm_transformer_xl")
    arguments = segment_arguments(garden, 1)
    cotangent = ops.convert_to_tensor(garden.raw["grad_cotangent"])

    def loss():
        return ops.sum(run(garden, *arguments)[0] * cotangent)

    names = sorted(garden.variables)
    found = gradients_of(loss, [garden.variables[name] for name in names])
    # Segment embeddings belong to XLNet and get no gradient here.
    assert {f"grad/{name}:0" for name in names} == {
        key for key in garden.raw if key.startswith("grad/")
    }
    for name, gradient in zip(names, found, strict=True):
        assert_close(
            gradient,
            garden.raw[f"grad/{name}:0"],
            tolerances.GRADIENT,
            f"gradient of {name}",
        )
