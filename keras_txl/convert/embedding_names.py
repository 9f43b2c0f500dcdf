"""Where embeddings and output layers stand in checkpoints of other code.

Axes: D hidden width, E_i width and V_i tokens of bin i, K tails, V
vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_txl.convert.weight_layout import Rows
from keras_txl.convert.weight_layout import SourceArray
from keras_txl.convert.weight_layout import as_is
from keras_txl.convert.weight_layout import constant
from keras_txl.convert.weight_layout import matrix
from keras_txl.convert.weight_layout import reversed_rows


def pytorch_embeddings(lm: Any, prefix: str) -> Iterator[SourceArray]:
    """Names in a state_dict.

    Args:
        lm: a `TransformerXLCausalLM`.
        prefix: of the input's names; `""` is the original, which reads the
            rows of the clusters last to first.
    """
    if lm.backbone.cutoffs is not None:
        yield from _pytorch_bins(lm, prefix)
        return
    table = lm.backbone.token_embedding
    names = [f"{prefix}word_emb.emb_layers.0.weight"]
    output_name = "crit.out_layers.0.weight"
    if table.tie_weights:
        names.append(output_name)
    else:
        yield matrix(
            [output_name], [table.reverse_embeddings], outputs_first=True
        )
    yield as_is(names, table.embeddings)  # (V, E)
    projection = lm.backbone.embedding_projection
    if projection is not None:
        names = [f"{prefix}word_emb.emb_projs.0"]
        output_name = "crit.out_projs.0"
        if projection.tie_weights:
            names.append(output_name)
        else:
            yield as_is([output_name], projection.reverse_kernel)  # (D, E)
        yield matrix(names, [projection.kernel], outputs_first=True)
    yield as_is(["crit.out_layers.0.bias"], lm.output_bias.bias)


def _pytorch_bins(lm: Any, prefix: str) -> Iterator[SourceArray]:
    embedding, softmax = lm.backbone.token_embedding, lm.adaptive_softmax
    clusters = reversed_rows if prefix == "" else as_is
    yield clusters(["crit.cluster_weight"], softmax.cluster_kernel)  # (K, E)
    yield clusters(["crit.cluster_bias"], softmax.cluster_bias)
    for index, table in enumerate(embedding.tables):
        names = [f"{prefix}word_emb.emb_layers.{index}.weight"]
        output_name = f"crit.out_layers.{index}.weight"
        if softmax.tie_embeddings:
            names.append(output_name)
        else:
            yield as_is([output_name], softmax.tables[index])
        yield as_is(names, table)  # (V_i, E_i)
    biases = (
        [softmax.bias]
        if len(embedding.tables) == 1
        else [Rows(softmax.bias, first, last) for first, last in embedding.bins]
    )
    for index, bias in enumerate(biases):
        yield as_is([f"crit.out_layers.{index}.bias"], bias)
    # One projection in may have one out for each bin.
    names_of = [
        [f"{prefix}word_emb.emb_projs.{index}"]
        for index in range(len(embedding.projections))
    ]
    for index, own in enumerate(softmax.projections):
        output_name = f"crit.out_projs.{index}"
        if own is None:
            names_of[min(index, len(names_of) - 1)].append(output_name)
        else:
            yield as_is([output_name], own)  # (D, E_i)
    for names, kernel in zip(names_of, embedding.projections, strict=True):
        yield matrix(names, [kernel], outputs_first=True)


def tensorflow_embeddings(
    lm: Any, project_same_dim: bool
) -> Iterator[SourceArray]:
    """Names in a checkpoint of the original TensorFlow code.

    Args:
        lm: a `TransformerXLCausalLM`.
        project_same_dim: bool. Whether bins as wide as the hidden states
            have projections there.
    """
    if lm.backbone.cutoffs is not None:
        yield from _tensorflow_bins(lm, project_same_dim)
        return
    table = lm.backbone.token_embedding
    yield as_is(["transformer/adaptive_embed/lookup_table"], table.embeddings)
    projection = lm.backbone.embedding_projection
    if projection is not None:
        yield as_is(
            ["transformer/adaptive_embed/proj_W"], projection.kernel
        )  # (E, D)
    yield as_is(["transformer/adaptive_softmax/bias"], lm.output_bias.bias)


def _tensorflow_bins(lm: Any, project_same_dim: bool) -> Iterator[SourceArray]:
    embedding, softmax = lm.backbone.token_embedding, lm.adaptive_softmax
    name = "transformer/adaptive_softmax/cutoff_{}/"
    yield as_is([name.format(0) + "cluster_W"], softmax.cluster_kernel)
    yield as_is([name.format(0) + "cluster_b"], softmax.cluster_bias)
    for index, (first, last) in enumerate(embedding.bins):
        rows = Rows(softmax.bias, first, last)
        yield as_is([name.format(index) + "b"], rows)
    for index, own in enumerate(softmax.projections):
        if own is None:
            continue
        if _left_out(own, project_same_dim):
            yield _identity(own)
        else:
            yield matrix(
                [name.format(index) + "proj"], [own], outputs_first=True
            )  # (E_i, D)
    name = "transformer/adaptive_embed/"
    if len(embedding.tables) > 1:
        name += "cutoff_{}/"
    for index, table in enumerate(embedding.tables):
        yield as_is([name.format(index) + "lookup_table"], table)
    for index, kernel in enumerate(embedding.projections):
        if _left_out(kernel, project_same_dim):
            yield _identity(kernel)
        else:
            yield as_is([name.format(index) + "proj_W"], kernel)  # (E_i, D)


def _left_out(kernel: Any, project_same_dim: bool) -> bool:
    return not project_same_dim and kernel.shape[0] == kernel.shape[1]


def _identity(kernel: Any) -> SourceArray:
    """No array there, a projection that changes nothing here."""
    return constant([], np.eye(kernel.shape[0], dtype="float32"), [kernel])
