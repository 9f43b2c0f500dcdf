"""The loop of endless generation: one token is fed, the next one drawn.

Axes: B rows, K tokens of one call, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor

TokenStep = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""(token_ids (B, 1), state) -> (logits (B, V), state)."""


def decode_tokens(
    step: TokenStep,
    sampler: Any,
    max_tokens: int,
    state: Any,
    token_ids: Tensor,
    limit: Tensor,
    stopped: Tensor,
    stop_token_ids: Tensor,
    seeds: tuple[Tensor, ...],
) -> dict[str, Any]:
    """Feed the newest token of each row and draw the next, several times.

    It ends after `limit` tokens, or when every row has drawn a stop token.

    Args:
        step: feeds one token of each row.
        sampler: a `keras_hub.samplers.Sampler` that draws token by token.
        max_tokens: int K, the most that `limit` can be.
        state: of the step. It may be overwritten.
        token_ids: int32 tensor of shape `(batch, 1)`, not fed yet.
        limit: int32 scalar tensor.
        stopped: bool tensor of shape `(batch,)`.
        stop_token_ids: int32 tensor of shape `(any,)`.
        seeds: of the sampler, see `draw_tokens`.

    Returns:
        Dict of `drawn (B, K)`, of which the first `count` are tokens, and
        what the next call needs: `token_ids`, `stopped`, `seeds`, `state`.
    """
    batch = ops.shape(token_ids)[0]

    def goes_on(count: Tensor, carry: dict[str, Any]) -> Tensor:
        return ops.logical_and(
            count < limit, ops.logical_not(ops.all(carry["stopped"]))
        )

    def feed_and_draw(
        count: Tensor, carry: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        logits, state = step(carry["token_ids"], carry["state"])
        tokens, seeds = draw_tokens(sampler, logits, carry["seeds"])
        tokens = tokens[:, None]  # (B, 1)
        stops = ops.any(tokens == stop_token_ids[None], axis=-1)
        return count + 1, {
            "drawn": ops.slice_update(
                carry["drawn"], ops.stack([0, count]), tokens
            ),
            "token_ids": tokens,
            "stopped": ops.logical_or(carry["stopped"], stops),
            "seeds": seeds,
            "state": state,
        }

    count, carry = ops.while_loop(
        goes_on,
        feed_and_draw,
        (
            ops.zeros((), dtype="int32"),
            {
                "drawn": ops.zeros((batch, max_tokens), dtype="int32"),
                "token_ids": token_ids,
                "stopped": stopped,
                "seeds": seeds,
                "state": state,
            },
        ),
    )
    return {"count": count, **carry}


def draw_tokens(
    sampler: Any, logits: Tensor, seeds: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Draw a token for each row.

    Args:
        sampler: a `keras_hub.samplers.Sampler`.
        logits: float tensor of shape `(batch, vocabulary_size)`.
        seeds: values of `sampler.variables`, which are left alone.

    Returns:
        int32 tensor of shape `(batch,)` and the new seeds.
    """
    probabilities = sampler.compute_probabilities(logits)
    mapping = list(zip(sampler.variables, seeds, strict=True))
    with keras.StatelessScope(state_mapping=mapping) as scope:
        tokens = sampler.get_next_token(probabilities)
    return ops.cast(tokens, "int32"), tuple(
        scope.get_current_value(variable) for variable in sampler.variables
    )
