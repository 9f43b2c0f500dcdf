"""Proof that nothing leaks into a stream, and that memory is read at all.

Tokens are changed where a loss must not notice, and its difference must be
0.0, not small. Every such check has its control: a token of the same
document must show, from each place that memory reaches.
"""

from typing import Any

import keras
import numpy as np

from keras_txl.analysis.leak_probe import LeakProbe
from keras_txl.analysis.leak_probe import borrowed
from keras_txl.analysis.leak_report import LeakReport
from keras_txl.analysis.memory_changes import ISOLATION
from keras_txl.analysis.memory_changes import own_document
from keras_txl.analysis.memory_changes import own_states
from keras_txl.checks import check_integer
from keras_txl.checks import check_language_model
from keras_txl.checks import check_positive
from keras_txl.layers.bank_placement import num_replicas


def check_isolation(
    lm: Any,
    document_ids: Any = None,
    *,
    segment_length: int | None = None,
    weight_scale: float | None = 0.3,
    max_places: int = 64,
    seed: int = 0,
) -> LeakReport:
    """Change what a stream must not notice, and what it must.

    Three memories are read side by side: one as a value, and the evaluation
    and the training bank of the model, if it has banks. No loss may move, by
    any amount, when tokens of another document, of another row, on padding or
    under another memory change, when padding moves, or by what was read
    before a reset; and no gradient may reach memory. As a control a loss must
    move when a token of its own document changes, wherever L layers of M
    slots reach, and when the state of any slot of any layer does.

    The model is as it was afterwards: weights, banks, random state.

    Args:
        lm: a `TransformerXLCausalLM` with memory. Narrow types round small
            changes away: build the model with `dtype="float64"` and
            `memory_dtype="float64"` for controls at long reach.
        document_ids: int array `(rows, tokens)`, the documents whose borders
            are tested, -1 on padding. Rows are those of the banks, tokens a
            multiple of `segment_length`. `None`: see `example_documents`.
        segment_length: int T, in tokens. Defaults to half of the memory, at
            least 4.
        weight_scale: float. Weights are drawn from N(0, `weight_scale`) for
            the time of the test, so that none is zero by design. `None`: the
            weights are left as they are. What comes through many layers gets
            small: a deep, narrow model may need more.
        max_places: int. Places that a control tries, evenly spread.
        seed: int. Of tokens, documents and weights.

    Returns:
        A `LeakReport`. `print` it for a table.

    Raises:
        TypeError: if the model is no language model.
        ValueError: if the model has no memory or `document_ids` does not fit.

    Example:
    ```python
    report = keras_txl.analysis.check_isolation(lm)
    print(report)
    ```
    """
    check_language_model(lm)
    if num_replicas() > 1 and keras.backend.backend() == "tensorflow":
        raise ValueError(
            "`lm` must live on one device: the replicas of a strategy have "
            "only parts of its memory. Received: a scope of "
            f"{num_replicas()} replicas. Call this outside of the scope, "
            "with a model that was built there."
        )
    check_integer("max_places", max_places, 2)
    if weight_scale is not None:
        check_positive("weight_scale", weight_scale)
    rng = np.random.default_rng(seed)
    with borrowed(lm, weight_scale, rng):
        probe = LeakProbe(lm, segment_length, rng)
        if document_ids is None:
            document_ids = example_documents(
                rng, probe.rows, probe.segment_length
            )
        stream = probe.stream(probe.check_documents(document_ids))
        checks = [line for find in ISOLATION for line in find(probe, stream)]
        checks += own_document(probe, max_places)
        checks += own_states(probe, max_places)
    order = [path.name for path in probe.paths]
    return LeakReport(
        tuple(sorted(checks, key=lambda check: order.index(check.memory)))
    )


def assert_no_leaks(lm: Any, document_ids: Any = None, **kwargs: Any) -> None:
    """Fail with the table of `check_isolation`, unless all checks pass.

    Args:
        lm: a `TransformerXLCausalLM` with memory.
        document_ids: see `check_isolation`.
        **kwargs: other arguments of `check_isolation`.

    Raises:
        AssertionError: if a check fails.

    Example:
    ```python
    def test_my_model_does_not_leak():
        keras_txl.analysis.assert_no_leaks(lm)
    ```
    """
    report = check_isolation(lm, document_ids, **kwargs)
    if not report.passed:
        raise AssertionError(f"The model leaks.\n{report}")


def example_documents(
    rng: np.random.Generator, rows: int, segment_length: int
) -> np.ndarray:
    """Documents with every kind of border behind a memory that holds text.

    Args:
        rng: draws the second half.
        rows: int B.
        segment_length: int T of at least 4, in tokens.

    Returns:
        int32 array `(B, 6 * T)`. In each row a document fills the first
        segment, another begins with the second, and in mid-segment the id of
        the first comes back; padding ends the third, so that a document
        begins behind it; three segments are drawn by `random_documents`.
    """
    third = max(1, segment_length // 4)
    fixed = np.repeat(
        [0, 1, 0, 0, 2, -1],
        [
            segment_length,
            segment_length - third,
            third,
            third,
            segment_length - 2 * third,
            third,
        ],
    )
    drawn = random_documents(rng, rows, segment_length, num_segments=3)
    return np.concatenate(
        [np.tile(fixed, (rows, 1)), np.where(drawn < 0, -1, drawn + 3)], axis=1
    ).astype("int32")


def random_documents(
    rng: np.random.Generator, rows: int, segment_length: int, num_segments: int
) -> np.ndarray:
    """About one document a segment, padding anywhere, ids that recur."""
    shape = (rows, segment_length * num_segments)
    borders = rng.random(shape) < min(0.3, 1 / segment_length)
    document_ids = np.cumsum(borders, axis=1) % 3
    return np.where(rng.random(shape) < 0.2, -1, document_ids).astype("int32")
