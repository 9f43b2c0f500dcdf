"""The sampling loop over a cached step.

Axes: B rows, P length of prompt and continuation, V vocabulary, D hidden width.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_txl.aliases import Tensor

CachedStep = Callable[[Tensor, Any, Any], tuple[Tensor, Tensor, Any]]
"""(token_ids (B, 1), cache, position) -> (logits, hidden, cache)."""


def sample_tokens(
    step: CachedStep,
    cache: Any,
    sampler: Any,
    token_ids: Tensor,
    padding_mask: Tensor,
    hidden_states: Tensor | None = None,
    stop_token_ids: Any = None,
    model: Any = None,
) -> dict[str, Tensor]:
    """Continue prompts of unequal lengths with any KerasHub sampler.

    Args:
        step: feeds the token at a position and writes it into the cache. Only
            the newest token is ever fed again.
        cache: behind the tokens that all prompts have, with or without the
            newest of them, which is fed first. Each leaf has the rows first.
        sampler: a `keras_hub.samplers.Sampler`.
        token_ids: int tensor of shape `(batch, length)`, prompts on the left.
        padding_mask: bool tensor of that shape, `True` on the prompts.
        hidden_states: float tensor of shape `(batch, length, hidden_dim)`, of
            the prompts, for a sampler that compares them.
        stop_token_ids: ids that end a text, or `None`.
        model: the model, whose variables the sampler needs on JAX.

    Returns:
        Dict of `token_ids` and `padding_mask` of that shape. The mask ends
        behind the first new stop token of a row.
    """
    padding_mask = ops.cast(padding_mask, "bool")

    def next_token(
        prompt: Tensor, cache: Any, index: Tensor
    ) -> tuple[Tensor, Tensor, Any]:
        batch = ops.shape(prompt)[0]
        newest = ops.slice(prompt, ops.stack([0, index - 1]), (batch, 1))
        logits, hidden, cache = step(newest, cache, index - 1)
        return logits[:, 0], hidden[:, 0], cache

    tokens = sampler(
        next=next_token,
        prompt=token_ids,
        cache=cache,
        index=shortest_prompt(padding_mask),
        mask=padding_mask,
        stop_token_ids=stop_token_ids,
        hidden_states=hidden_states,
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


def shortest_prompt(padding_mask: Tensor) -> Tensor:
    """Tokens that each of the prompts has: an int32 scalar tensor."""
    return ops.min(ops.sum(ops.cast(padding_mask, "int32"), axis=-1))
