"""Token losses of a linear layer and a softmax, without its logits in memory.

Logits exist for one chunk of tokens at a time. The gradient is written out:
a second loop computes the logits of each chunk anew. As nothing is
differentiated through the loops, the number of chunks may depend on the data,
so a cluster of an adaptive softmax costs what the tokens in it cost.

Axes: N tokens, C tokens of a chunk, D hidden width, E embedding width,
V rows of the table.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor

LOGITS_PER_CHUNK = 2**23
"""Logits of a chunk where no length is given: 32 MiB in float32."""


def linear_token_losses(
    hidden: Tensor,
    projection: Tensor | None,
    table: Tensor,
    bias: Tensor,
    targets: Tensor,
    chunk: int,
    order: Tensor | None = None,
    count: Tensor | None = None,
) -> Tensor:
    """Minus the log-probability of each target under a softmax.

    The logits are `hidden @ projection @ table.T + bias`. Products are made in
    the dtype of `hidden`, all else in float32 (float64 for such weights).

    Args:
        hidden: float tensor of shape `(num_tokens, hidden_dim)`.
        projection: float tensor of shape `(hidden_dim, embedding_dim)`, or
            `None` where both widths are one.
        table: float tensor of shape `(num_rows, embedding_dim)`.
        bias: float tensor of shape `(num_rows,)`.
        targets: int tensor of shape `(num_tokens,)`, rows of the table.
        chunk: int. Most tokens whose logits exist at once; as many chunks as
            that takes are made equally long.
        order: int32 tensor of shape `(num_tokens,)`, a permutation of the
            tokens. Default: as they stand.
        count: int32 scalar. Only the first `count` tokens of `order` are
            computed. Default: all.

    Returns:
        Float tensor of shape `(num_tokens,)` in nats; 0 for tokens that are
        not computed.
    """
    hidden = _read(hidden)
    num_tokens = ops.shape(hidden)[0]
    if isinstance(num_tokens, int) and num_tokens > 0 and count is None:
        chunk = -(-num_tokens // -(-num_tokens // chunk))
    if order is None:
        order = ops.arange(num_tokens, dtype="int32")
    if count is None:
        count = ops.convert_to_tensor(num_tokens, "int32")
    # Behind the last chunk there must be something to slice.
    order = ops.concatenate([order, ops.zeros((chunk,), "int32")], axis=0)
    targets = ops.cast(targets, "int32")
    weights = [_read(table), _read(bias)]
    if projection is not None:
        weights.append(_read(projection))

    def with_gradient(*tensors: Tensor) -> tuple[Tensor, Any]:
        losses, log_sums = _losses(
            tensors, targets, order, count, num_tokens, chunk
        )

        def gradient(*args: Tensor, upstream: Any = None) -> Any:
            # PyTorch passes the tensors and `upstream` by name, the others
            # the upstream gradient alone.
            arguments = tensors if upstream is None else args
            upstream = args[0] if upstream is None else upstream
            return _gradients(
                arguments, targets, order, count, log_sums, upstream, chunk
            )

        return losses, gradient

    function = ops.custom_gradient(with_gradient)
    losses: Tensor = function(hidden, *weights)
    return losses


def default_chunk(num_rows: int) -> int:
    """Tokens of a chunk that keep its logits near `LOGITS_PER_CHUNK`."""
    return max(16, min(1024, LOGITS_PER_CHUNK // num_rows))


def _losses(
    tensors: tuple[Tensor, ...],
    targets: Tensor,
    order: Tensor,
    count: Tensor,
    num_tokens: int | Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Losses `(N,)`, and the log of the sum of exponentials `(N + 1,)`."""
    hidden, table, bias, projection = _unpack(tensors)

    def body(start: Tensor, losses: Tensor, log_sums: Tensor) -> Any:
        rows, slots, _ = _chunk_rows(order, start, count, num_tokens, chunk)
        embedded = _embed(ops.take(hidden, rows, axis=0), projection)
        logits = _logits(embedded, table, bias)  # (C, V)
        top = ops.max(logits, axis=-1)
        log_sum = top + ops.log(
            ops.sum(ops.exp(logits - top[:, None]), axis=-1)
        )
        chosen = ops.take_along_axis(
            logits, ops.take(targets, rows)[:, None], axis=-1
        )[:, 0]
        losses = _put(losses, slots, log_sum - chosen)
        return start + chunk, losses, _put(log_sums, slots, log_sum)

    table = ops.cast(table, hidden.dtype)
    empty = ops.zeros((num_tokens + 1,), dtype=bias.dtype)
    _, losses, log_sums = _loop(
        count, body, (ops.zeros((), "int32"), empty, empty)
    )
    return losses[:num_tokens], log_sums


def _gradients(
    tensors: tuple[Tensor, ...],
    targets: Tensor,
    order: Tensor,
    count: Tensor,
    log_sums: Tensor,
    upstream: Tensor,
    chunk: int,
) -> tuple[Tensor, ...]:
    """Gradients of `tensors`, in their order, shapes and dtypes."""
    hidden, table, bias, projection = _unpack(tensors)
    num_tokens = ops.shape(hidden)[0]
    columns = ops.arange(ops.shape(table)[0], dtype="int32")
    table = ops.cast(table, hidden.dtype)
    upstream = ops.cast(upstream, bias.dtype)

    def body(start: Tensor, d_hidden: Tensor, *d_weights: Tensor) -> Any:
        rows, slots, valid = _chunk_rows(order, start, count, num_tokens, chunk)
        state = ops.take(hidden, rows, axis=0)  # (C, D)
        embedded = _embed(state, projection)  # (C, E)
        log_sum = ops.where(valid, ops.take(log_sums, slots), float("inf"))
        probabilities = ops.exp(
            _logits(embedded, table, bias) - log_sum[:, None]
        )
        scale = ops.where(valid, ops.take(upstream, rows), 0)
        is_target = columns[None] == ops.take(targets, rows)[:, None]
        d_logits = scale[:, None] * ops.where(
            is_target, probabilities - 1, probabilities
        )  # (C, V)
        d_bias = ops.sum(d_logits, axis=0)
        d_logits = ops.cast(d_logits, hidden.dtype)
        d_state = d_embedded = ops.matmul(d_logits, table)  # (C, E)
        updates = [ops.matmul(ops.transpose(d_logits), embedded), d_bias]
        if projection is not None:
            kernel = ops.cast(projection, hidden.dtype)
            d_state = ops.matmul(d_embedded, ops.transpose(kernel))
            updates.append(ops.matmul(ops.transpose(state), d_embedded))
        totals = (
            total + ops.cast(update, total.dtype)
            for total, update in zip(d_weights, updates, strict=True)
        )
        return start + chunk, _put(d_hidden, slots, d_state), *totals

    d_hidden = ops.zeros((num_tokens + 1, hidden.shape[-1]), hidden.dtype)
    d_weights = (ops.zeros_like(weight) for weight in tensors[1:])
    _, d_hidden, *totals = _loop(
        count, body, (ops.zeros((), "int32"), d_hidden, *d_weights)
    )
    return d_hidden[:num_tokens], *totals


def _read(value: Any) -> Tensor:
    """A plain tensor: TensorFlow's `custom_gradient` takes no variable."""
    value = ops.convert_to_tensor(value)
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    return tf.convert_to_tensor(value)


def _unpack(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`hidden`, `table`, `bias` and `projection` or `None`."""
    hidden, table, bias, *projection = tensors
    return hidden, table, bias, projection[0] if projection else None


def _embed(state: Tensor, projection: Tensor | None) -> Tensor:
    """From the hidden width to that of the table: (C, D) to (C, E)."""
    if projection is None:
        return state
    return ops.matmul(state, ops.cast(projection, state.dtype))


def _logits(embedded: Tensor, table: Tensor, bias: Tensor) -> Tensor:
    """Logits of a chunk (C, V) in the dtype of the bias."""
    logits = ops.matmul(embedded, ops.transpose(table))
    return ops.cast(logits, bias.dtype) + bias


def _chunk_rows(
    order: Tensor,
    start: Tensor,
    count: Tensor,
    num_tokens: int | Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of a chunk, the slots for their results, and who is valid.

    The last chunk may go beyond `count`: what is computed there goes to slot
    N, which nobody reads.
    """
    rows = ops.slice(order, ops.stack([start]), (chunk,))  # (C,)
    valid = start + ops.arange(chunk, dtype="int32") < count
    return rows, ops.where(valid, rows, num_tokens), valid


def _put(values: Tensor, slots: Tensor, updates: Tensor) -> Tensor:
    """`values` with `updates` in the rows `slots`."""
    return ops.scatter_update(values, slots[:, None], updates)


def _loop(
    count: Tensor, body: Callable[..., Any], values: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Run `body` while its first value, the start of a chunk, is in range."""

    def in_range(start: Tensor, *_: Tensor) -> Tensor:
        return start < count

    if keras.backend.backend() != "tensorflow":
        looped: tuple[Tensor, ...] = ops.while_loop(in_range, body, values)
        return looped
    import tensorflow as tf

    # More iterations at once would hold the logits of as many chunks.
    looped = tf.while_loop(in_range, body, values, parallel_iterations=1)
    return looped


def at_least_float32(bias: Tensor) -> Tensor:
    """A bias whose dtype, which is that of the losses, is wide enough."""
    bias = ops.convert_to_tensor(bias)
    narrow = keras.backend.standardize_dtype(bias.dtype) in (
        "bfloat16",
        "float16",
    )
    return ops.cast(bias, "float32") if narrow else bias
