"""The same data give the same losses by every route, on every backend."""

import keras
import numpy as np
import pytest

from tests import tolerances
from tests.oracles import golden
from tests.oracles.value_losses import mean_loss
from tests.oracles.weights import golden_lm
from tests.oracles.weights import randomize
from tests.tolerances import assert_close


class LossOfEachBatch(keras.callbacks.Callback):
    """Keras reports the mean so far after every batch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


class Repeated:
    """A generator that never ends, and how many steps a pass has."""

    def __init__(self, stream):
        self.stream = stream

    def arguments(self, steps):
        return {"x": self.batches(), steps: len(self.stream)}

    def batches(self):
        while True:
            yield from self.stream


def as_stream(stream, steps):
    return {"x": stream}


def as_tf_dataset(stream, steps):
    return {"x": stream.to_tf_dataset()}


def as_tf_dataset_of_unknown_shape(stream, steps):
    import tensorflow as tf

    unknown = tf.TensorSpec((None, None), tf.int32)
    return {
        "x": tf.data.Dataset.from_generator(
            stream.__iter__,
            output_signature=(
                {"token_ids": unknown, "document_ids": unknown},
                unknown,
                tf.TensorSpec((None, None), tf.float32),
            ),
        ).apply(tf.data.experimental.assert_cardinality(len(stream)))
    }


def as_generator(stream, steps):
    return Repeated(stream).arguments(steps)


def as_arrays(stream, steps):
    batches = list(stream)
    names = ("token_ids", "document_ids")
    return {
        "x": {
            name: np.concatenate([inputs[name] for inputs, _, _ in batches])
            for name in names
        },
        "y": np.concatenate([targets for _, targets, _ in batches]),
        "sample_weight": np.concatenate([weights for _, _, weights in batches]),
    }


def as_data_loader(stream, steps):
    from torch.utils.data import DataLoader

    return {"x": DataLoader(list(stream), batch_size=None)}


ROUTES = [
    as_tf_dataset,
    as_tf_dataset_of_unknown_shape,
    as_generator,
    as_arrays,
    pytest.param(as_data_loader, marks=pytest.mark.backend("torch")),
]


def train(lm, arguments, **settings):
    """Losses after every batch of two epochs from the same start."""
    randomize(lm, seed=7)
    each = LossOfEachBatch()
    history = lm.fit(
        **arguments, epochs=2, verbose=0, callbacks=[each], **settings
    )
    return each.losses, history.history


@pytest.fixture(scope="module")
def expected(compiled_lm):
    """Losses by the stream itself; keyed by nothing, computed once."""
    return {}


@pytest.mark.parametrize("route", ROUTES)
def test_fit_gives_the_same_losses_by_every_route(lm, stream, route, expected):
    if not expected:
        expected["losses"], _ = train(lm, as_stream(stream, None))
    losses, _ = train(lm, route(stream, "steps_per_epoch"))
    assert len(losses) == 12
    assert losses[6] < 0.99 * losses[0]  # it trains
    assert_close(losses, expected["losses"], tolerances.FLOAT32, "losses")


@pytest.mark.parametrize("route", [as_stream, *ROUTES])
def test_evaluate_gives_the_losses_of_values_by_every_route(lm, stream, route):
    loss = lm.evaluate(**route(stream, "steps"), verbose=0, return_dict=True)
    assert_close(
        loss["loss"], mean_loss(lm, stream), tolerances.FLOAT32, "loss"
    )


def test_a_validation_generator_that_ends_is_an_error(lm, stream):
    arguments = as_arrays(stream, None)
    with pytest.raises(Exception, match="ran out: .*0 of 6 batches"):
        train(lm, arguments, validation_data=iter(stream), validation_steps=6)


@pytest.mark.parametrize("route", [as_stream, *ROUTES])
def test_validation_gives_the_same_losses_by_every_route(lm, stream, route):
    arguments = route(stream, "validation_steps")
    data = tuple(
        arguments[key]
        for key in ("x", "y", "sample_weight")
        if key in arguments
    )
    steps = arguments.get("validation_steps")
    _, history = train(
        lm,
        as_arrays(stream, None),
        validation_data=data if len(data) > 1 else data[0],
        validation_steps=steps,
    )
    assert len(history["val_loss"]) == 2
    assert_close(
        history["val_loss"][-1],
        mean_loss(lm, stream),
        tolerances.FLOAT32,
        "validation loss after the last epoch",
    )


@pytest.mark.parametrize("name", ["sgd", "adam"])
@pytest.mark.parametrize("curve_name", golden.CURVES)
def test_sixty_steps_of_training_equal_a_public_implementation(
    curve_name, name
):
    curve = golden.load_curve(curve_name)
    lm = golden_lm(curve, batch_size=curve.inputs.shape[1])
    settings = curve.optimizers[name]
    optimizers = {
        "sgd": lambda: keras.optimizers.SGD(settings["lr"]),
        "adam": lambda: keras.optimizers.Adam(
            settings["lr"], *settings["betas"], epsilon=settings["eps"]
        ),
    }
    lm.compile(optimizer=optimizers[name]())
    steps, _, length = curve.inputs.shape
    # An epoch of one step reports the loss of that step; memory goes on.
    history = lm.fit(
        curve.inputs.reshape(-1, length),
        curve.targets.reshape(-1, length),
        steps_per_epoch=1,
        epochs=steps,
        verbose=0,
    ).history
    assert_close(
        history["loss"], curve.losses[name], tolerances.TRAINING_CURVE, "losses"
    )
