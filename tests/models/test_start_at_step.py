"""The parts that a `fit` is cut into so as to begin at any step."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.models.start_at_step import StartAtStep
from keras_txl.models.start_at_step import start_among

STREAM = SegmentStream(np.arange(25), batch_size=2, segment_length=3)
MODEL = SimpleNamespace(steps_per_execution=1)


def parts(step, epochs, x=None, initial_epoch=0, steps_per_epoch=5):
    x = STREAM.repeat(step) if x is None else x
    return [
        (
            part.stream.start,
            part.steps_per_epoch,
            part.steps_before,
            list(range(part.first_epoch, part.epochs)),
        )
        for part in StartAtStep(step).plan(
            MODEL, x, epochs, initial_epoch, steps_per_epoch
        )
    ]


@pytest.mark.parametrize(
    ("step", "epochs", "expected"),
    [
        (0, 3, [(0, 5, 0, [0, 1, 2])]),
        (5, 3, [(5, 5, 0, [1, 2])]),
        (7, 3, [(7, 3, 2, [1]), (10, 5, 0, [2])]),
        (14, 3, [(14, 1, 4, [2])]),
        (15, 3, [(15, 5, 0, [])]),
        (17, 3, [(17, 5, 0, [])]),  # `epochs` was larger before
    ],
)
def test_an_epoch_that_was_begun_is_a_part_of_its_own(step, epochs, expected):
    assert parts(step, epochs) == expected


def test_passes_of_a_stream_are_epochs():
    assert len(STREAM) == 4
    assert parts(0, 2, STREAM, steps_per_epoch=None) == [(0, 4, 0, [0, 1])]


def test_a_later_first_epoch_is_kept():
    assert parts(0, 3, STREAM.repeat(), initial_epoch=2) == [(0, 5, 0, [2])]


@pytest.mark.parametrize(
    ("x", "steps_per_epoch"),
    [
        (STREAM, 3),
        (STREAM.repeat(), None),
        (np.zeros((4, 3)), None),
    ],
)
def test_data_that_cannot_be_read_from_any_place_are_refused(
    x, steps_per_epoch
):
    with pytest.raises(ValueError, match=r"or `fit\(stream.repeat\(\), steps"):
        parts(0, 2, x, steps_per_epoch=steps_per_epoch)


def test_an_epoch_must_hold_whole_executions():
    model = SimpleNamespace(steps_per_execution=2)
    with pytest.raises(ValueError, match="a multiple of `steps_per_execution`"):
        StartAtStep().plan(model, STREAM.repeat(), 1, 0, 5)


def test_two_beginnings_are_refused():
    with pytest.raises(ValueError, match="Only one callback can say where"):
        start_among([StartAtStep(), keras.callbacks.History(), StartAtStep(1)])
