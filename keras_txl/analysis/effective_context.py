"""Relative effective context length, RECL (paper 4.5 and Appendix C).

How long a context still pays: the length behind which another `step` of tokens
lowers the perplexity by less than a hundredth. A short context is hard for all
models of a group alike, so gains are measured against the best of them.

Axes: N models, K tokens.
"""

import functools
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.evaluation.token_losses import token_losses


@dataclass(frozen=True)
class EffectiveContext:
    """RECL of each model of a group.

    Args:
        lengths: int64 array of shape `(models,)`, in tokens.
        gains: relative gain of each model at each length that was tried, by
            length: NaN for a model that was done before.
        longest: int. Longest context that was tried. A length equal to it
            means: at least so long.
    """

    lengths: np.ndarray
    gains: dict[int, np.ndarray]
    longest: int


def relative_gain(
    short: np.ndarray, long: np.ndarray, ratio: float = 1.0
) -> np.ndarray:
    """g(c, c'): the share of perplexity that a longer context takes away.

    Args:
        short: float array of shape `(models, tokens)`, losses in nats with a
            context of c tokens.
        long: float array of that shape, with c' tokens.
        ratio: share of tokens that are looked at: those whose best loss under
            the short context is largest.

    Returns:
        float64 array of shape `(models,)`.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), Appendix C.
    """
    baseline = short.min(axis=0)  # b(c, t)
    count = max(1, round(ratio * baseline.size))
    hardest = np.argsort(-baseline, kind="stable")[:count]  # the set T
    baseline = baseline[hardest]
    before = baseline.mean()  # f(c, c), as b is at most every l(c, t)
    after = np.minimum(baseline, long[:, hardest]).mean(axis=1)  # f(c, c')
    return -np.expm1(after - before)


def find_effective_context(
    losses_at: Callable[[int], np.ndarray],
    *,
    step: int,
    longest: int,
    initial: int | None = None,
    ratio: float = 1.0,
    threshold: float = 0.01,
) -> EffectiveContext:
    """RECL of models whose losses a function gives.

    Args:
        losses_at: from a context length to the losses of all models, of shape
            `(models, tokens)` in nats, of the same tokens at every length.
        step: tokens by which the context grows.
        longest: longest context to try, in tokens.
        initial: context to begin with. Defaults to `step`.
        ratio: see `relative_gain`; the paper has 0.1, 0.5 and 1.
        threshold: gain below which a context is long enough.

    Returns:
        An `EffectiveContext`.

    Raises:
        ValueError: if a length is no positive integer, a share lies outside
            (0, 1], or there is no room for a step.
    """
    check_integer("step", step, 1)
    context = check_integer("initial", step if initial is None else initial, 1)
    check_integer("longest", longest, context + step)
    if not 0 < ratio <= 1:
        raise ValueError(
            f"`ratio` must be in (0, 1]. Received: ratio={ratio}. The paper "
            "has 0.1, 0.5 and 1."
        )
    short = np.asarray(losses_at(context), "float64")
    lengths = np.zeros(len(short), "int64")
    gains: dict[int, np.ndarray] = {}
    while context + step <= longest and not lengths.all():
        long = np.asarray(losses_at(context + step), "float64")
        gain = relative_gain(short, long, ratio)
        gains[context] = np.where(lengths > 0, np.nan, gain)
        lengths[(lengths == 0) & (gain < threshold)] = context
        short, context = long, context + step
    lengths[lengths == 0] = context
    return EffectiveContext(lengths, gains, context)


def relative_effective_context_length(
    models: Sequence[Any],
    documents: Any,
    *,
    step: int,
    longest: int,
    batch_size: int = 16,
    **options: Any,
) -> EffectiveContext:
    """RECL of a group of models on documents.

    Every token is read anew with exactly the context that is asked for, so a
    length c costs c times as much as a pass: choose a short text. Tokens with
    fewer than `longest` others before them are left out.

    Args:
        models: `TransformerXLCausalLM`s over the same tokens.
        documents: one 1-D integer array, or a sequence of them.
        step: tokens by which the context grows.
        longest: longest context to try, in tokens.
        batch_size: contexts read side by side.
        **options: `initial`, `ratio` and `threshold` of
            `find_effective_context`.

    Returns:
        An `EffectiveContext`.

    Raises:
        ValueError: if no document is longer than `longest`, or an option is
            out of range.

    Example:

    ```python
    found = keras_txl.analysis.relative_effective_context_length(
        [lm], documents, step=2, longest=8
    )
    print(found.lengths)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 4.5 and Appendix C.
    """

    return find_effective_context(
        losses_by_context(models, documents, longest, batch_size),
        step=step,
        longest=longest,
        **options,
    )


def losses_by_context(
    models: Sequence[Any], documents: Any, longest: int, batch_size: int = 16
) -> Callable[[int], np.ndarray]:
    """What `find_effective_context` asks for, of models on documents.

    Args:
        models: `TransformerXLCausalLM`s over the same tokens.
        documents: one 1-D integer array, or a sequence of them.
        longest: longest context that will be asked for, in tokens.
        batch_size: contexts read side by side.

    Returns:
        A function from a context length to the losses of all models, of
        shape `(models, tokens)` in nats. It reads each length once.
    """

    @functools.cache
    def losses_at(context: int) -> np.ndarray:
        found = [
            token_losses(
                lm,
                documents,
                segment_length=context,
                batch_size=batch_size,
                stride=1,
            )
            for lm in models
        ]
        # Loss i of a document is that of its token i + 1.
        kept = [
            np.concatenate([nats[longest - 1 :] for nats in own])
            for own in found
        ]
        if not kept[0].size:
            raise ValueError(
                "`documents` must hold one of more than `longest` tokens. "
                f"Received: longest={longest}, documents of at most "
                f"{max(map(len, found[0])) + 1} tokens. Pass a longer text."
            )
        return np.stack(kept)  # (N, K)

    return losses_at
