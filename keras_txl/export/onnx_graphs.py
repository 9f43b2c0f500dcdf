"""The functions that become ONNX graphs, by flavour.

Axes: B rows, T segment, L layers, M memory slots, D hidden width,
V vocabulary.
"""

from typing import Any

from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.export.onnx_key_value_graphs import key_value_graph
from keras_txl.export.onnx_ring_graph import ring_graph
from keras_txl.export.onnx_signature import BATCH
from keras_txl.export.onnx_signature import SEGMENT
from keras_txl.export.onnx_signature import Graph
from keras_txl.export.onnx_signature import Value
from keras_txl.export.onnx_signature import check_flavour
from keras_txl.export.onnx_signature import logits_shape


def make_graph(lm: Any, flavour: str, memory_length: int) -> Graph:
    """The graph of a model.

    Args:
        lm: a `TransformerXLCausalLM` in float32.
        flavour: one of `FLAVOURS`.
        memory_length: int M.

    Returns:
        The graph.

    Raises:
        ValueError: if the model has no such flavour.
    """
    check_flavour(lm.backbone, flavour, memory_length)
    makers = {
        "hidden": hidden_graph,
        "kv": key_value_graph,
        "kv_ring": ring_graph,
    }
    return makers[flavour](lm, memory_length)


def hidden_graph(lm: Any, memory_length: int) -> Graph:
    """A segment with the paper's memory in and out: `step` of the contract.

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M.

    Returns:
        The graph.
    """
    backbone = lm.backbone
    memory = (BATCH, backbone.num_layers, memory_length, backbone.hidden_dim)

    def step(
        token_ids: Tensor,
        token_length: Tensor,
        states: Tensor,
        length: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        places = ops.arange(0, ops.shape(token_ids)[1], 1)
        valid = places < token_length[:, None]  # (B, T)
        inputs = {
            "token_ids": ops.where(valid, token_ids, 0),
            "document_ids": ops.where(valid, 0, -1),
        }
        logits, new = lm._step(
            inputs,
            {
                "states": states,
                "length": length,
                "document": ops.zeros_like(length),
            },
        )
        return logits, new["states"], new["length"]

    return Graph(
        step,
        (
            Value("token_ids", (BATCH, SEGMENT), "int32"),
            Value("token_length", (BATCH,), "int32"),
            Value("memory", memory, "float32"),
            Value("memory_length", (BATCH,), "int32"),
        ),
        (
            Value("logits", logits_shape(lm), "float32"),
            Value("new_memory", memory, "float32"),
            Value("new_memory_length", (BATCH,), "int32"),
        ),
        tuple(lm.weights),
    )
