"""Measurements that no model had to make."""

import numpy as np
import pytest

from keras_txl.analysis import EffectiveContext
from keras_txl.analysis import MemoryTrace
from keras_txl.analysis import PositionLosses
from keras_txl.analysis import RelativeKeys
from keras_txl.evaluation import StreamEvaluation
from keras_txl.report import ReadingMeasurements
from keras_txl.report.shown_text import Piece

HOSTILE = "</pre><script>alert('&amp;')</script>"
"""Text that would be markup if it were not escaped."""


def evaluation(bits):
    return StreamEvaluation(
        document_nats=np.array([bits * 40 * np.log(2)]),
        document_targets=np.array([40]),
        document_bytes=np.array([40]),
        seconds=1.0,
        timed_targets=30,
        protocol_line=f"a protocol with {bits} & <b>",
    )


@pytest.fixture(scope="session")
def found():
    """Two layers of two heads, segments of four, a memory of four."""
    rng = np.random.default_rng(0)
    attention = rng.random((2, 2, 8))
    return ReadingMeasurements(
        unit="byte",
        num_documents=1,
        segment_length=4,
        memory_length=4,
        pieces=[
            Piece("f", None, None),
            Piece(HOSTILE, 1.25, 3.5),
            Piece("\n", 2.0, 1.0),
            Piece("\x00\t\u00e9", 0.0, 0.0),
        ],
        share_helped=0.6,
        curve={length: evaluation(2.5 - length / 8) for length in (0, 4, 8)},
        interval=None,
        positions={
            length: PositionLosses(
                np.array([2.0, 1.5, np.nan, 1.0]), np.array([3, 3, 0, 2])
            )
            for length in (0, 4)
        },
        attention=attention / attention.sum(axis=-1, keepdims=True),
        entropy=rng.random((2, 2)),
        terms={name: rng.random((2, 2)) for name in "abcd"},
        relative_keys=RelativeKeys(
            rng.normal(size=(2, 8, 2, 4)), rng.normal(size=(2, 8, 2, 4))
        ),
        trace=MemoryTrace(rng.random((5, 2)), rng.random((5, 2))),
        effective_context={
            1.0: EffectiveContext(np.array([4]), {2: np.array([0.05])}, 4)
        },
        effective_context_step=2,
    )
