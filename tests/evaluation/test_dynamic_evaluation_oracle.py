"""Dynamic evaluation against training by Keras itself.

A step on each segment after it is scored is one pass of training with plain
SGD over the same stream; decay and scales are put on top in NumPy.
"""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.evaluation import EvaluationProtocol
from keras_txl.evaluation import evaluate_stream
from keras_txl.evaluation import gradient_scales
from keras_txl.evaluation import token_losses
from keras_txl.evaluation.document_line import DocumentLine
from keras_txl.evaluation.token_losses import segment_losses
from keras_txl.evaluation.token_losses import segment_reader
from tests.oracles.weights import randomize
from tests.tolerances import EXACT
from tests.tolerances import FLOAT32
from tests.tolerances import REORDERED
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

SGD_RATE = 0.25
READING = {"segment_length": 4, "batch_size": 2, "memory_length": 6}


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(num_layers=1)
    lm.compile(keras.optimizers.SGD(SGD_RATE))
    randomize(lm, seed=3)
    return lm


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(4)
    # Repeats itself, is cut by a stream, and ends in short segments.
    return [np.tile(rng.integers(0, 17, 5), 6), rng.integers(0, 17, 8)]


def values_of(lm):
    return [np.array(to_numpy(v.value)) for v in lm.variables]


def trained_of(lm):
    return [
        np.array(to_numpy(v.value), "float64") for v in lm.trainable_variables
    ]


def put(lm, values):
    for variable, value in zip(lm.trainable_variables, values, strict=True):
        variable.assign(value)


def train_over(lm, documents, new_values):
    """Losses of each step of SGD, which `new_values` then replaces."""
    start, losses = trained_of(lm), []
    lm.reset_memory("train")
    stream = SegmentStream(
        documents, READING["batch_size"], READING["segment_length"]
    )
    for index in range(len(stream)):
        before = trained_of(lm)
        lm.reset_metrics()
        logs = lm.train_on_batch(*stream.segment(index), return_dict=True)
        losses.append(float(logs["loss"]))
        gradients = [
            (old - new) / SGD_RATE
            for old, new in zip(before, trained_of(lm), strict=True)
        ]
        put(lm, new_values(start, before, gradients))
    put(lm, start)
    return losses


def read_dynamically(lm, documents, scales=None, **dynamic):
    """Mean loss of the tokens of each call."""
    protocol = EvaluationProtocol(**READING, **dynamic).resolved(lm)
    read = segment_reader(lm, protocol, scales)
    line = DocumentLine(documents)
    found = segment_losses(lm, line, protocol, read=read)
    return [float(segment.nats.mean()) for segment in found]


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_a_call_scores_before_its_step_as_training_does(lm, documents, decay):
    def step(start, before, gradients):
        return [
            old - 0.5 * gradient + decay * (first - old)
            for first, old, gradient in zip(
                start, before, gradients, strict=True
            )
        ]

    expected = train_over(lm, documents, step)
    found = read_dynamically(
        lm, documents, dynamic_learning_rate=0.5, dynamic_decay=decay
    )
    assert_close(np.array(found), np.array(expected), FLOAT32, "losses")


@pytest.mark.backend("tensorflow")
def test_steps_divided_by_scales_equal_the_formula(lm, documents):
    squares = []

    def keep(start, before, gradients):
        squares.append([gradient**2 for gradient in gradients])
        return start

    train_over(lm, documents, keep)
    scales = [np.sqrt(np.mean(s, axis=0)) for s in zip(*squares, strict=True)]
    found = gradient_scales(lm, documents, epsilon=0.01, **READING)
    for value, scale in zip(found.root_mean_squares, scales, strict=True):
        assert_close(value, scale, FLOAT32, "scales")
    mean = np.concatenate([scale.ravel() for scale in scales]).mean()

    def step(start, before, gradients):
        return [
            old
            - 0.003 * gradient / (scale + 0.01)
            + np.minimum(0.4 * scale / mean, 1) * (first - old)
            for first, old, gradient, scale in zip(
                start, before, gradients, scales, strict=True
            )
        ]

    expected = train_over(lm, documents, step)
    losses = read_dynamically(
        lm,
        documents,
        found,
        dynamic_learning_rate=0.003,
        dynamic_decay=0.4,
    )
    # Differences of float32 weights are less exact than gradients.
    assert_close(np.array(losses), np.array(expected), 1e-4, "losses")


def test_learning_rate_0_is_static_evaluation(lm, documents):
    static = token_losses(lm, documents, **READING)
    still = token_losses(lm, documents, dynamic_learning_rate=0, **READING)
    for found, expected in zip(still, static, strict=True):
        assert_close(found, expected, REORDERED, "losses")


def test_text_that_repeats_itself_becomes_likelier(lm, documents):
    static = evaluate_stream(lm, documents, **READING)
    dynamic = evaluate_stream(
        lm, documents, dynamic_learning_rate=0.5, **READING
    )
    assert dynamic.document_nats[0] < 0.9 * static.document_nats[0]
    assert ", dynamic learning rate 0.5, decay 0.0;" in dynamic.protocol_line
    assert "after it was scored, carried on" in dynamic.protocol_line
    assert "dynamic" not in static.protocol_line


def test_the_model_stays_as_it_is_after_an_interrupt_too(lm, documents):
    before = values_of(lm)

    def interrupt(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_stream(
            lm,
            documents,
            dynamic_learning_rate=0.5,
            progress=interrupt,
            **READING,
        )
    for variable, value in zip(lm.variables, before, strict=True):
        assert_close(variable.value, value, EXACT, variable.path)


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(
    "reading",
    [
        {"segment_length": 4, "batch_size": 1, "memory_length": 6},
        {"segment_length": 6, "batch_size": 2, "stride": 2},
    ],
)
def test_no_token_counts_before_it_is_scored(lm, documents, reading):
    """What a token is changes no loss of those before it."""
    reading = {**reading, "dynamic_learning_rate": 0.5}
    document = documents[0]
    losses = token_losses(lm, document, **reading)[0]
    for place in (9, 18):
        other = np.array(document)
        other[place] = (other[place] + 1) % 17
        found = token_losses(lm, other, **reading)[0]
        assert_close(found[: place - 1], losses[: place - 1], EXACT, "before")
        assert abs(found[place:] - losses[place:]).min() > 0


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dynamic_decay": 0.1}, "Pass both"),
        ({"dynamic_learning_rate": -1.0}, "must be 0 or a number above 0"),
        (
            {"dynamic_learning_rate": 1.0, "dynamic_decay": 1.0},
            r"must be a number in \[0, 1\)",
        ),
        (
            {"dynamic_learning_rate": 1.0, "warmup_tokens": 3},
            "before it is scored",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(lm, documents, arguments, told):
    with pytest.raises(ValueError, match=told):
        evaluate_stream(lm, documents, **READING, **arguments)


@pytest.mark.backend("tensorflow")
def test_scales_and_weights_that_do_not_fit_are_refused(make_lm, lm, documents):
    scales = gradient_scales(lm, documents, **READING)
    with pytest.raises(ValueError, match="leave the scales out"):
        evaluate_stream(lm, documents, gradient_scales=scales, **READING)
    other = make_lm()
    dynamic = {**READING, "dynamic_learning_rate": 0.1}
    with pytest.raises(ValueError, match="Measure them on this model"):
        evaluate_stream(other, documents, gradient_scales=scales, **dynamic)
    other.trainable = False
    with pytest.raises(ValueError, match="Set `trainable = True`"):
        evaluate_stream(other, documents, **dynamic)
