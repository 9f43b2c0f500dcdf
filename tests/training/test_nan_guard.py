"""The guard tells what was first not to be finite, and when."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.training import NaNGuard
from keras_txl.training.model_state import training_variables
from keras_txl.training.nan_guard import describe
from tests.oracles.weights import randomize
from tests.tolerances import to_numpy


@pytest.fixture(scope="module")
def compiled(make_lm):
    lm = make_lm(num_layers=3)
    lm.compile(keras.optimizers.SGD(0.01))
    randomize(lm, seed=5)
    lm.optimizer.build(lm.trainable_variables)
    return lm, [np.array(to_numpy(v.value)) for v in training_variables(lm)]


@pytest.fixture
def lm(compiled):
    lm, start = compiled
    for variable, value in zip(training_variables(lm), start, strict=True):
        variable.assign(value)
    return lm


@pytest.fixture
def stream():
    ids = np.random.default_rng(0).integers(0, 17, 65)
    return SegmentStream(ids, batch_size=2, segment_length=4)


class Spoil(keras.callbacks.Callback):
    """Puts a number into a variable behind a step."""

    def __init__(self, step, find, value=np.nan, epoch=1):
        super().__init__()
        self.place = (epoch - 1, step - 1)
        self.find = find
        self.value = value

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            variable = self.find(self.model)
            variable.assign(np.full(variable.shape, self.value, "float32"))


def block(index):
    return lambda lm: (
        lm.backbone.transformer_layers[index].feed_forward_norm.beta
    )


def fails(lm, stream, *callbacks, **arguments):
    with pytest.raises(FloatingPointError) as error:
        lm.fit(stream, callbacks=list(callbacks), verbose=0, **arguments)
    return str(error.value)


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        (
            lambda lm: lm.backbone.token_embedding.embeddings,
            "the memory of layer 0 is the first that is not finite: the "
            "embedding made it",
        ),
        (
            block(1),
            "the memory of layer 2 is the first that is not finite: layer 1 "
            "made it",
        ),
        (block(2), "the loss is nan, and no memory shows why: the last layer"),
    ],
)
def test_the_layer_that_made_it_is_named(lm, stream, find, expected):
    told = fails(lm, stream, NaNGuard(), Spoil(3, find))
    assert "In step 4 of epoch 1, " in told
    assert expected in told
    assert "Lower the learning rate" in told


def test_bad_gradients_show_in_weights_behind_a_finite_loss(lm, stream):
    def rate(model):
        return model.optimizer.learning_rate

    told = fails(
        lm, stream, NaNGuard(), Spoil(2, rate, np.inf, epoch=2), epochs=3
    )
    assert "In step 3 of epoch 2, the weight " in told
    assert "more is not finite, made by its gradient" in told


@pytest.fixture(scope="module")
def fragile_lm(make_lm):
    """The gradients of layer 0 are not finite while a gain of it is 2."""
    lm = make_lm(num_layers=2)
    lm.compile(keras.optimizers.SGD(0.01, global_clipnorm=1.0))
    norm = lm.backbone.transformer_layers[0].feed_forward_norm
    call = norm.call

    def fragile(inputs):
        outputs = call(inputs)
        gate = outputs * (norm.gamma[0] - 2.0)
        return outputs + 1e-20 * keras.ops.sqrt(keras.ops.square(gate))

    norm.call = fragile
    return lm


@pytest.mark.parametrize("searches", [False, True])
def test_the_layer_of_the_first_bad_gradient_is_found(
    fragile_lm, stream, searches
):
    lm = fragile_lm
    randomize(lm, seed=5)

    def gain(model):
        return model.backbone.transformer_layers[0].feed_forward_norm.gamma

    guard = NaNGuard(
        batch_at=(lambda epoch, step: stream.segment(step, epoch))
        if searches
        else None
    )
    told = fails(
        lm, stream, guard, Spoil(2, gain, value=2.0, epoch=2), epochs=2
    )
    assert "In step 3 of epoch 2, the weight " in told
    count = len(lm.trainable_variables) - 1
    assert f" and {count} more is not finite, made by its gradient" in told
    assert searches == (
        "going back from the loss, transformer_layer_0 is the first whose "
        "gradients are not finite (transformer_layer_0/" in told
    )
    assert "transformer_layer_1" not in told
    assert np.isnan(to_numpy(gain(lm))).all()  # as the bad step left it


def test_a_search_needs_each_step_and_a_language_model():
    with pytest.raises(ValueError, match="`batch_at` needs a look after each"):
        NaNGuard(every_steps=2, batch_at=lambda epoch, step: None)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="Received: Sequential. Leave it"):
        model.fit(
            np.ones((2, 2)),
            np.ones((2, 1)),
            callbacks=[NaNGuard(batch_at=lambda epoch, step: None)],
            verbose=0,
        )


def test_a_bad_weight_is_told_before_training(lm, stream):
    variable = block(1)(lm)
    variable.assign(np.full(variable.shape, np.inf, "float32"))
    told = fails(lm, stream, NaNGuard())
    assert "Before the first step, the weight " in told
    assert variable.path in told
    assert "made by" not in told


def test_a_look_now_and_then_names_the_steps_between(lm, stream):
    told = fails(lm, stream, NaNGuard(every_steps=3), Spoil(4, block(2)))
    assert "In steps 4 to 5 of epoch 1, the loss is nan" in told


def test_a_good_run_is_left_alone(lm, stream):
    lm.fit(stream, epochs=2, callbacks=[NaNGuard(every_steps=3)], verbose=0)


def test_the_model_is_usable_after_the_error(lm, stream):
    fails(lm, stream, NaNGuard(), Spoil(3, block(0)))
    randomize(lm, seed=5)
    losses = lm.fit(stream, verbose=0).history["loss"]
    assert np.isfinite(losses).all()


def test_any_keras_model_can_be_guarded():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), loss="mse")
    x = np.array([[1.0, 2.0], [np.inf, 1.0]], "float32")
    with pytest.raises(FloatingPointError, match="In step 2 of epoch 1"):
        model.fit(
            x,
            np.ones((2, 1)),
            batch_size=1,
            shuffle=False,
            callbacks=[NaNGuard()],
            verbose=0,
        )


def test_finite_numbers_need_no_word():
    assert describe([], [True, True], 1.5) is None
    assert describe([], [], None) is None
    assert "memory of layer 1" in describe([], [True, False], None)
