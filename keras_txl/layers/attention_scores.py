"""Scores by content and by distance (paper 3.3 and Appendix B).

The four terms of the score of query i and key j, in the paper's letters:

    (a) q_i . k_j      content addressing
    (b) q_i . r_(i-j)  content-dependent position
    (c) u . k_j        global content bias
    (d) v . r_(i-j)    global position bias

Axes: B rows, T segment, S = M + T keys, N heads, H head width.
"""

from collections.abc import Sequence

from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.memory_parts import join_keys
from keras_txl.layers.memory_parts import memory_slots
from keras_txl.layers.memory_parts import split_keys
from keras_txl.layers.relative_shift import shift_padded


def relative_attention_scores(
    query: Tensor,
    keys: Sequence[Tensor],
    relative_key: Tensor | None = None,
    content_bias: Tensor | None = None,
    position_bias: Tensor | None = None,
    distance_bias: Tensor | None = None,
) -> list[Tensor]:
    """Scores of every query and key, terms (a) to (d), over the root of H.

    u and v are added to the query before the product, so (a) and (c) are one
    product over keys and (b) and (d) one over distances. What is `None` is
    left out: the ablations of the paper.

    Args:
        query: float tensor of shape `(batch, segment_length, num_heads,
            head_dim)`.
        keys: float tensors of shape `(batch, keys, num_heads, head_dim)`:
            memory, if there is one, and the segment.
        relative_key: float tensor W_kR R of shape `(key_length, num_heads,
            head_dim)`, row `r` for distance `key_length - 1 - r`.
        content_bias: float tensor u of shape `(num_heads, head_dim)`.
        position_bias: float tensor v of shape `(num_heads, head_dim)`.
        distance_bias: float tensor of shape `(key_length, num_heads)`, a
            learned term (d) in place of v.

    Returns:
        For each of `keys` a tensor of shape `(batch, num_heads,
        segment_length, keys)`. Entries of keys that come after the query are
        meaningless and must be masked.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """
    scale = query.shape[-1] ** -0.5
    content = ops.multiply(_add(query, content_bias), scale)
    scores = [
        ops.einsum("btnh,bsnh->bnts", content, key) for key in keys
    ]  # (a) + (c)
    if relative_key is not None:
        slots = memory_slots(keys)
        position = ops.multiply(_add(query, position_bias), scale)
        relative_key = ops.pad(relative_key, [[0, 1], [0, 0], [0, 0]])
        # No product that repeats rows for the batch: oneDNN fails in it when
        # TensorFlow runs two at once.
        by_distance = join_keys(
            [
                ops.einsum("btnh,snh->bnts", position, rows)
                for rows in split_keys(relative_key, slots, axis=0)
            ],
            axis=3,
        )  # (b) + (d), and a column behind
        if distance_bias is not None:
            distance_bias = ops.pad(distance_bias, [[0, 1], [0, 0]]) * scale
            by_distance += ops.transpose(distance_bias)[:, None]  # (N, 1, S+1)
        by_key = split_keys(shift_padded(by_distance), slots, axis=3)
        scores = [ops.add(*both) for both in zip(scores, by_key, strict=True)]
    return scores


def _add(query: Tensor, bias: Tensor | None) -> Tensor:
    # Outside a call of the layer, Keras does not cast its weights.
    if bias is None:
        return query
    return ops.add(query, ops.cast(bias, query.dtype))
