"""Loss by memory length and by place in the segment."""

import numpy as np
import pytest

from keras_txl.analysis import loss_by_memory_length
from keras_txl.analysis import loss_by_position
from keras_txl.evaluation import evaluate_stream
from keras_txl.evaluation import token_losses
from tests.oracles.told_losses import ToldLosses
from tests.oracles.weights import randomize

pytestmark = pytest.mark.backend("tensorflow")

DOCUMENTS = [np.arange(11) % 7, np.arange(4)]


class Fragmented(ToldLosses):
    """A token costs a nat over what it sees: segment and slots."""

    def losses(self, inputs, memory):
        slots = memory["states"].shape[2]
        seen = 1 + slots + np.arange(inputs["token_ids"].shape[1])
        return np.broadcast_to(1 / seen, inputs["token_ids"].shape)


def test_a_curve_over_memory_is_one_evaluation_a_length():
    curve = loss_by_memory_length(
        Fragmented(), DOCUMENTS, [0, 5], segment_length=4, batch_size=1
    )
    assert list(curve) == [0, 5]
    for length, found in curve.items():
        alone = evaluate_stream(
            Fragmented(),
            DOCUMENTS,
            segment_length=4,
            batch_size=1,
            memory_length=length,
        )
        assert found.nats == alone.nats
        assert found.protocol.memory_length == length
    assert curve[5].nats < curve[0].nats


def test_positions_show_where_a_segment_begins():
    curve = loss_by_position(
        Fragmented(), DOCUMENTS, segment_length=4, memory_length=0
    )
    # 13 pairs in segments of 4: the last has one.
    assert curve.counts.tolist() == [4, 3, 3, 3]
    np.testing.assert_allclose(curve.nats, [1, 1 / 2, 1 / 3, 1 / 4])


def test_places_where_nothing_stood_have_no_loss():
    curve = loss_by_position(
        Fragmented(), np.arange(3), segment_length=4, memory_length=0
    )
    assert curve.counts.tolist() == [1, 1, 0, 0]
    assert np.isnan(curve.nats[2:]).all()


def test_a_real_model_has_the_losses_of_its_tokens(make_lm):
    lm = make_lm()
    randomize(lm, seed=1)
    ids = np.random.default_rng(0).integers(0, 17, 22)
    settings = {"segment_length": 7, "memory_length": 3}
    curve = loss_by_position(lm, ids, **settings)
    by_place = token_losses(lm, ids, **settings)[0].reshape(3, 7)
    np.testing.assert_allclose(curve.nats, by_place.mean(axis=0), rtol=1e-6)
