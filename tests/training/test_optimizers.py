"""What decays, what is clipped, and what accumulates."""

import re

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.training import WarmupLinearDecay
from keras_txl.training import make_optimizer
from keras_txl.training.optimizers import NO_WEIGHT_DECAY
from tests.oracles.weights import randomize
from tests.tolerances import EXACT
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

SCHEMES = [
    {},
    {
        "cutoffs": [5, 9],
        "div_val": 2,
        "position": "absolute_learned",
        "max_distance": 12,
    },
    {
        "tie_embeddings": False,
        "embedding_dim": 4,
        "position": "relative_learned",
        "max_distance": 12,
    },
    {
        "position": "relative_clipped",
        "relative_values": True,
        "max_distance": 12,
    },
]
MATRICES = {
    "kernel",
    "reverse_kernel",
    "cluster_kernel",
    *(f"projection_{index}" for index in range(3)),
}


@pytest.fixture
def segments():
    rng = np.random.default_rng(3)
    stream = SegmentStream(rng.integers(0, 17, 90), 2, 4)
    return [stream.segment(index) for index in range(6)]


def values(variables):
    return [np.array(to_numpy(variable.value)) for variable in variables]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_name_but_those_of_matrices_is_kept_from_decay(make_lm, scheme):
    for variable in make_lm(num_layers=1, **scheme).trainable_variables:
        for name in (variable.name, f"{variable.path}:0"):
            kept = re.search(NO_WEIGHT_DECAY, name) is not None
            assert kept == (variable.name not in MATRICES), name


@pytest.mark.parametrize("name", ["adam", "adamw", "lamb"])
def test_matrices_decay_and_nothing_else(name):
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    randomize(layer, seed=1)
    kernel, bias = values(layer.trainable_variables)
    make_optimizer(name, 0.5, weight_decay=0.1).apply(
        [keras.ops.zeros((3, 2)), keras.ops.zeros((2,))],
        layer.trainable_variables,
    )
    assert_close(layer.kernel, kernel * (1 - 0.5 * 0.1), FLOAT32, "kernel")
    assert_close(layer.bias, bias, EXACT, "bias")


def train_on(lm, segments):
    """Weights and memory after each segment."""
    seen = []
    for inputs, targets, weights in segments:
        lm.train_on_batch(inputs, targets, weights)
        states = [memory.train_states for memory in lm.segment_memories]
        seen.append((values(lm.trainable_variables), values(states)))
    return seen


def differ(one, other):
    return any((a != b).any() for a, b in zip(one, other, strict=True))


def test_accumulation_moves_weights_at_each_kth_segment_and_memory_at_each(
    make_lm, segments
):
    # On TensorFlow the gradient of an untied table is sparse.
    lm = make_lm(num_layers=1, tie_embeddings=False)
    randomize(lm, seed=2)
    schedule = WarmupLinearDecay(0.1, total_steps=6, warmup_steps=2)
    lm.compile(
        make_optimizer(
            "lamb", schedule, weight_decay=0.1, gradient_accumulation_steps=3
        )
    )
    before = (
        values(lm.trainable_variables),
        values(m.train_states for m in lm.segment_memories),
    )
    for number, after in enumerate(train_on(lm, segments), 1):
        assert differ(before[0], after[0]) == (number % 3 == 0)
        assert differ(before[1], after[1])
        before = after
    assert int(lm.optimizer.iterations) == 2
    assert float(lm.optimizer.learning_rate) == 0  # it counts segments


def test_accumulation_is_the_mean_gradient_of_its_segments(make_lm, segments):
    """With SGD the step of k segments is the mean of their k steps, each from
    the same weights, with the memory that the segments before left."""
    lm = make_lm(num_layers=1)
    randomize(lm, seed=2)
    lm.compile(keras.optimizers.SGD(0.1))
    start = values(lm.trainable_variables)
    steps = []
    for segment in segments[:3]:
        ((weights, _),) = train_on(lm, [segment])
        steps.append([w - s for w, s in zip(weights, start, strict=True)])
        for variable, value in zip(lm.trainable_variables, start, strict=True):
            variable.assign(value)
    lm.reset_memory()
    lm.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=3))
    found = train_on(lm, segments[:3])[-1][0]
    for index, variable in enumerate(lm.trainable_variables):
        mean = sum(step[index] for step in steps) / 3
        assert_close(found[index] - start[index], mean, FLOAT32, variable.path)


def test_accumulation_of_one_segment_is_none():
    optimizer = make_optimizer("lamb", 0.1, gradient_accumulation_steps=1)
    assert optimizer.gradient_accumulation_steps is None


def test_without_decay_adamw_is_adam():
    ends = []
    for optimizer in (
        make_optimizer("adamw", 0.1, global_clipnorm=1.0),
        keras.optimizers.Adam(0.1, global_clipnorm=1.0),
    ):
        variable = keras.Variable([0.3, -0.2], name="kernel")
        for gradient in ([3.0, 4.0], [-1.0, 0.1]):
            gradient = keras.ops.convert_to_tensor(gradient)
            optimizer.apply([gradient], [variable])
        ends.append(values([variable]))
    assert_close(*ends, EXACT, "two steps")


def test_a_plateau_of_validation_halves_the_rate(make_lm):
    lm = make_lm(num_layers=1)
    lm.compile(make_optimizer("adamw", 0.5, weight_decay=0.1))
    halve = keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=0)
    halve.set_model(lm)
    halve.on_train_begin()
    rates = []
    for epoch, loss in enumerate([3.0, 2.0, 2.0, 1.0, 1.5, 1.2]):
        halve.on_epoch_end(epoch, {"val_loss": loss})
        rates.append(float(lm.optimizer.learning_rate))
    assert rates == [0.5, 0.5, 0.25, 0.25, 0.125, 0.0625]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "sgd"}, "to `compile` itself"),
        ({"weight_decay": -1.0}, "`weight_decay` must be a number above 0"),
        ({"global_clipnorm": 0}, "`global_clipnorm` must be a number above 0"),
        ({"gradient_accumulation_steps": 0}, "must be an integer of at least"),
    ],
)
def test_arguments_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_optimizer(**{"name": "adam", "learning_rate": 0.1, **changes})
