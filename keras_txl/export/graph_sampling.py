"""Drawing tokens in a graph, each row by settings and a seed of its own.

What a row draws depends on its logits, its settings, its seed and the number
of tokens it has drawn: rows of several requests may share a call, and the same
request draws the same text on every machine. (TensorFlow only.)

Axes: B rows, V vocabulary.
"""

from keras_txl.aliases import Tensor

# Constants of splitmix64 (Steele et al. 2014).
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def row_uniforms(seed: Tensor, step: Tensor) -> Tensor:
    """A number in [0, 1) for each row, by its seed and a step.

    Args:
        seed: int32 tensor of shape `(batch,)`.
        step: int32 scalar tensor.

    Returns:
        float32 tensor of shape `(batch,)`.
    """
    import tensorflow as tf

    def constant(value: int) -> Tensor:
        return tf.constant(value, tf.uint64)

    def mix(state: Tensor) -> Tensor:
        state = state + constant(_GOLDEN)
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            shifted = tf.bitwise.right_shift(state, constant(shift))
            state = tf.bitwise.bitwise_xor(state, shifted) * constant(factor)
        shifted = tf.bitwise.right_shift(state, constant(31))
        return tf.bitwise.bitwise_xor(state, shifted)

    mixed = mix(mix(tf.cast(seed, tf.uint64)) + tf.cast(step, tf.uint64))
    bits = tf.bitwise.right_shift(mixed, constant(40))  # 24 of them
    return tf.cast(tf.cast(bits, tf.int32), tf.float32) * 2.0**-24


def draw_rows(
    logits: Tensor,
    uniforms: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
) -> Tensor:
    """Draw a token for each row.

    The distribution is cut to the `top_k` likeliest tokens, of these to the
    likeliest that hold probability `top_p`, as KerasHub's samplers do.

    Args:
        logits: float tensor of shape `(batch, vocabulary_size)`.
        uniforms: float32 tensor of shape `(batch,)` in [0, 1).
        temperature: float32 tensor of shape `(batch,)`. 0 takes the likeliest.
        top_k: int32 tensor of shape `(batch,)`. 0 keeps all.
        top_p: float32 tensor of shape `(batch,)`. 1 keeps all.

    Returns:
        int32 tensor of shape `(batch,)`.
    """
    import tensorflow as tf

    size = tf.shape(logits)[-1]
    divisor = tf.where(temperature > 0, temperature, 1.0)
    scaled = tf.cast(logits, tf.float32) / divisor[:, None]
    values, tokens = tf.math.top_k(scaled, k=size)  # (B, V), likeliest first
    most = tf.where(top_k > 0, top_k, size)
    most = tf.where(temperature > 0, most, 1)
    ranks = tf.range(size)[None]
    values = tf.where(ranks < most[:, None], values, values.dtype.min)
    chances = tf.nn.softmax(values)
    before = tf.cumsum(chances, axis=-1, exclusive=True)
    kept = tf.where(before <= top_p[:, None], chances, 0.0)
    below = tf.cumsum(kept, axis=-1)  # (B, V), its last column is all
    bound = uniforms[:, None] * below[:, -1:]
    rank = tf.reduce_sum(tf.cast(below <= bound, tf.int32), axis=-1)
    last = tf.reduce_sum(tf.cast(kept > 0, tf.int32), axis=-1) - 1
    rank = tf.minimum(rank, last)
    return tf.gather(tokens, rank, batch_dims=1)
