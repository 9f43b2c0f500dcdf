"""The sampling loop over a cached step.

Axes: B rows, P length of prompt and continuation, V vocabulary, D hidden width.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_txl.aliases import Tensor

CachedStep = Callable[[Tensor, Any, Any], tuple[Tensor, Tensor, Any]]
"""(token_ids (B, K), cache, position) -> (logits, hidden, cache)."""


def sample_tokens(
    step: CachedStep,
    cache: Any,
    sampler: Any,
    token_ids: Tensor,
    padding_mask: Tensor,
    stop_token_ids: Any = None,
    model: Any = None,
) -> dict[str, Tensor]:
    """Continue prompts of unequal lengths with any KerasHub sampler.

    Args:
        step: runs new tokens at a position and writes them into the cache.
        cache: of an empty text; each leaf has the rows first.
        sampler: a `keras_hub.samplers.Sampler`.
        token_ids: int tensor of shape `(batch, length)`, prompts on the left.
        padding_mask: bool tensor of that shape, `True` on the prompts.
        stop_token_ids: ids that end a text, or `None`.
        model: the model, whose variables the sampler needs on JAX.

    Returns:
        Dict of `token_ids` and `padding_mask` of that shape. The mask ends
        behind the first new stop token of a row.
    """
    padding_mask = ops.cast(padding_mask, "bool")
    _, hidden, cache = step(token_ids, cache, 0)

    def next_token(
        prompt: Tensor, cache: Any, index: Tensor
    ) -> tuple[Tensor, Tensor, Any]:
        batch = ops.shape(prompt)[0]
        newest = ops.slice(prompt, ops.stack([0, index - 1]), (batch, 1))
        logits, hidden, cache = step(newest, cache, index - 1)
        return logits[:, 0], hidden[:, 0], cache

    prompt_lengths = ops.sum(ops.cast(padding_mask, "int32"), axis=-1)
    tokens = sampler(
        next=next_token,
        prompt=token_ids,
        cache=cache,
        index=ops.min(prompt_lengths),
        mask=padding_mask,
        stop_token_ids=stop_token_ids,
        hidden_states=hidden,
        model=model,
    )
    if stop_token_ids is None:
        return {
            "token_ids": tokens,
            "padding_mask": ops.ones_like(tokens, dtype="bool"),
        }
    stops = ops.zeros_like(padding_mask)
    for stop in stop_token_ids:
        stops = ops.logical_or(stops, tokens == stop)
    stops = ops.cast(
        ops.logical_and(stops, ops.logical_not(padding_mask)), "int32"
    )
    stopped_before = ops.cumsum(stops, axis=-1) - stops
    return {"token_ids": tokens, "padding_mask": stopped_before == 0}
