"""Training with memory: order, resets, validation, refusals, precision."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from tests import tolerances
from tests.oracles.memory_banks import IDS
from tests.oracles.memory_banks import Batches
from tests.oracles.memory_banks import X
from tests.oracles.memory_banks import Y
from tests.oracles.memory_banks import as_tf_data
from tests.oracles.memory_banks import assert_same_bank
from tests.oracles.memory_banks import bank_of
from tests.oracles.memory_banks import fill
from tests.oracles.value_losses import batch_means
from tests.oracles.value_losses import mean_loss
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


# === Validation ===
def losses_of_fit(lm, x, seed=7, epochs=3, **arguments):
    randomize(lm, seed=seed)
    history = lm.fit(x, epochs=epochs, verbose=0, **arguments)
    return history.history["loss"]


VALIDATION = {
    "another_batch_size": lambda: SegmentStream(IDS[:5].reshape(-1), 1, 4),
    "a_larger_batch": lambda: SegmentStream(IDS[:9].reshape(-1), 3, 4),
    "another_segment_length": lambda: SegmentStream(IDS[:5].reshape(-1), 2, 7),
}


@pytest.mark.parametrize("name", VALIDATION)
def test_validation_changes_no_training_loss(lm, stream, name):
    validation = VALIDATION[name]()
    alone = losses_of_fit(lm, stream)
    weights = [to_numpy(weight) for weight in lm.trainable_weights]
    training = bank_of(lm, "train")
    randomize(lm, seed=7)
    history = lm.fit(
        stream, epochs=3, verbose=0, validation_data=validation
    ).history
    assert history["loss"] == alone
    for variable, value in zip(lm.trainable_weights, weights, strict=True):
        assert_close(variable, value, tolerances.EXACT, variable.path)
    # Document numbers go on from pass to pass.
    for found, wanted in zip(
        bank_of(lm, "train")[:2], training[:2], strict=True
    ):
        assert_close(found, wanted, tolerances.EXACT, "training bank")
    assert_close(
        history["val_loss"][-1],
        mean_loss(lm, validation),
        tolerances.FLOAT32,
        "validation loss",
    )


def test_validation_with_a_longer_memory_changes_no_training_loss(
    make_lm, lm, stream
):
    alone = losses_of_fit(lm, stream, epochs=2)
    longer = make_lm(eval_memory_length=9)
    longer.compile(optimizer=keras.optimizers.SGD(0.1))
    randomize(longer, seed=7)
    history = longer.fit(
        stream, epochs=2, verbose=0, validation_data=stream
    ).history
    assert_close(history["loss"], alone, tolerances.FLOAT32, "losses")
    expected = mean_loss(longer, stream, memory_length=9)
    assert abs(expected - mean_loss(longer, stream, memory_length=6)) > 1e-4
    assert_close(
        history["val_loss"][-1], expected, tolerances.FLOAT32, "validation"
    )


class BankLengths(keras.callbacks.Callback):
    """How many slots of the training bank are valid when an epoch ends."""

    def __init__(self):
        super().__init__()
        self.lengths = []

    def on_epoch_end(self, epoch, logs=None):
        self.lengths.append(int(bank_of(self.model, "train")[1][0, 0]))


def flat_batches(number):
    """Arrays of `number` batches of one token a row: slots count batches."""
    return IDS.reshape(-1, 1)[: 2 * number], IDS.reshape(-1, 1)[-2 * number :]


def lengths_of_fit(lm, batches, **arguments):
    lengths = BankLengths()
    x, y = flat_batches(batches)
    lm.fit(x, y, callbacks=lengths, verbose=0, **arguments)
    return lengths.lengths


def test_memory_is_reset_at_every_restart_of_the_data(lm):
    assert lengths_of_fit(lm, 3, epochs=3) == [3, 3, 3]


def test_memory_is_reset_when_training_begins(lm):
    assert lengths_of_fit(lm, 3) == [3]
    assert lengths_of_fit(lm, 3) == [3]


def test_memory_may_continue_over_calls_of_fit(lm):
    assert lengths_of_fit(lm, 2) == [2]
    assert lengths_of_fit(lm, 2, reset_memory=False) == [4]
    assert lengths_of_fit(lm, 2, reset_memory=False, epochs=2) == [6, 2]


def test_memory_goes_on_over_epochs_of_steps(lm):
    # Six batches in epochs of two: the data restarts after three epochs.
    lengths = lengths_of_fit(lm, 6, epochs=5, steps_per_epoch=2)
    assert lengths == [2, 4, 6, 2, 4]


@pytest.mark.filterwarnings("ignore:.*ran out of data")
def test_asking_for_a_batch_that_is_missing_counts_none(lm, own_model):
    """A graph of TensorFlow may run what does not wait for the batch."""
    import tensorflow as tf

    def unknown_length(*arrays):
        return tf.data.Dataset.from_generator(
            lambda: zip(*arrays, strict=True),
            output_signature=tuple(
                tf.TensorSpec(x.shape[1:], x.dtype) for x in arrays
            ),
        )

    x, y = flat_batches(3)
    lm.fit(unknown_length(x.reshape(3, 2, 1), y.reshape(3, 2, 1)), verbose=0)
    own_model.fit(
        unknown_length(SUMS.reshape(4, 2, 1, 3)[:3], np.zeros((3, 2, 1))),
        verbose=0,
    )
    for model in (lm, own_model):
        _, length, document = bank_of(model, "train")
        assert (length == 3).all() and (document == 0).all()


@pytest.mark.filterwarnings("ignore:.*ran out of data")
def test_memory_is_reset_where_data_of_unknown_length_end(lm):
    import tensorflow as tf

    x, y = flat_batches(5)
    data = tf.data.Dataset.from_generator(
        lambda: zip(x.reshape(5, 2, 1), y.reshape(5, 2, 1), strict=True),
        output_signature=(tf.TensorSpec((2, 1), tf.int32),) * 2,
    )
    lengths = BankLengths()
    lm.fit(data, epochs=5, steps_per_epoch=2, callbacks=[lengths], verbose=0)
    assert lengths.lengths == [2, 4, 5, 2, 4]


@pytest.mark.filterwarnings("ignore:.*ran out of data")
def test_memory_is_reset_where_steps_do_not_divide_the_data(lm):
    # Five batches in epochs of two: 2, 2, the last one, then from the start.
    lengths = lengths_of_fit(lm, 5, epochs=5, steps_per_epoch=2)
    assert lengths == [2, 4, 5, 2, 4]


def test_memory_goes_on_over_epochs_of_endless_data(lm):
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(flat_batches(3)).batch(2)
    lengths = BankLengths()
    lm.fit(
        data.repeat(),
        epochs=3,
        steps_per_epoch=2,
        callbacks=[lengths],
        verbose=0,
    )
    assert lengths.lengths == [2, 4, 6]


def test_continued_training_equals_training_in_one_go(lm):
    rows = IDS[:24]
    randomize(lm, seed=7)
    whole = lm.fit(
        rows, rows[::-1], epochs=12, steps_per_epoch=1, verbose=0
    ).history["loss"]
    randomize(lm, seed=7)
    parts = []
    for first, last in ((0, 10), (10, 24)):
        parts += lm.fit(
            rows[first:last],
            rows[::-1][first:last],
            epochs=(last - first) // 2,
            steps_per_epoch=1,
            reset_memory=first == 0,
            verbose=0,
        ).history["loss"]
    assert_close(parts, whole, tolerances.FLOAT32, "losses")


def test_arrays_are_read_in_order_and_by_the_rows_of_the_memory(lm):
    targets = IDS[10:18]
    each = lm.fit(
        IDS[:8], targets, epochs=4, steps_per_epoch=1, verbose=0
    ).history["loss"]
    randomize(lm, seed=7)
    first = batch_means(lm, [(IDS[:2], targets[:2], np.ones((2, 4)))])
    assert_close(each[:1], first, tolerances.FLOAT32, "first loss")
    assert len(each) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": X, "y": Y, "batch_size": 3},
        {"x": Batches(X, Y)},
        pytest.param(
            lambda: {"x": as_tf_data(X, Y, drop_remainder=True)},
            id="tf_data",
        ),
    ],
)
def test_fit_refuses_more_rows_than_the_memory_has(lm, arguments):
    arguments = arguments() if callable(arguments) else arguments
    _, training = fill(lm)
    with pytest.raises(
        ValueError,
        match="batches of 3 rows.*batch_size=2. Use smaller batches, or build",
    ):
        lm.fit(**arguments, verbose=0)
    assert_same_bank(bank_of(lm, "train"), training, "training bank")


def test_fit_refuses_more_rows_that_show_only_in_the_graph(lm):
    with pytest.raises(Exception, match="batch_size=2 of the memory"):
        lm.fit(as_tf_data(X, Y), verbose=0)
    # The model is usable all the same.
    assert lm.fit(X[:4], Y[:4], verbose=0).history["loss"][0] > 0


def test_fit_refuses_to_shuffle(lm):
    with pytest.raises(ValueError, match="shuffle=True. .*`batch_size=None`"):
        lm.fit(X, Y, shuffle=True)


@pytest.mark.parametrize("verb", ["fit", "evaluate", "predict"])
def test_data_from_several_workers_is_refused(lm, verb):
    with pytest.raises(ValueError, match="workers=2. Use workers=1"):
        getattr(lm, verb)(Batches(X, Y, rows=2, workers=2), verbose=0)


# === Without memory ===
def test_a_model_without_batch_size_carries_nothing(make_lm):
    free = make_lm(batch_size=None)
    free.compile(optimizer=keras.optimizers.SGD(0.0), weighted_metrics=[])
    randomize(free, seed=7)
    assert free.memory_batch_size is None
    losses, _ = free.token_losses(X, Y, free.initial_memory(9))
    expected = np.mean(to_numpy(losses))
    loss = free.evaluate(X, Y, batch_size=3, verbose=0)
    assert_close(loss, expected, tolerances.FLOAT32, "evaluate")
    # Neither the order nor the size of batches matters.
    history = free.fit(X, Y, batch_size=3, shuffle=True, epochs=2, verbose=0)
    assert_close(
        history.history["loss"], [expected] * 2, tolerances.FLOAT32, "fit"
    )


# === Models of one's own ===
@pytest.fixture(scope="module")
def own_model():
    from keras_txl.layers import SegmentMemory
    from keras_txl.models import StatefulModel

    inputs = keras.Input((None, 3))
    context, length = SegmentMemory(4, batch_size=2)(inputs)
    total = keras.ops.sum(context, axis=(1, 2), keepdims=True)
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(
        total[:, :, 0] + keras.ops.cast(length, "float32")[:, None]
    )
    model = StatefulModel(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.0), "mse")
    return model


SUMS = np.arange(24, dtype="float32").reshape(4, 2, 3)


def test_a_model_of_ones_own_carries_memory(own_model):
    first, second = SUMS[:2].sum(axis=(1, 2)), SUMS[2:].sum(axis=(1, 2))
    expected = np.concatenate([first, first + second + 2])
    predicted = own_model.predict(SUMS, verbose=0)[:, 0]
    assert_close(predicted, expected, tolerances.FLOAT32, "prediction")
    loss = own_model.evaluate(SUMS, expected[:, None], verbose=0)
    assert_close(loss, 0.0, tolerances.FLOAT32, "evaluation")
    own_model.reset_memory()
    own_model(SUMS[:2])
    assert_close(
        own_model(SUMS[2:])[:, 0], expected[2:], tolerances.FLOAT32, "call"
    )


def test_a_model_of_ones_own_trains_with_memory_reset_at_restart(own_model):
    first, second = SUMS[:2].sum(axis=(1, 2)), SUMS[2:].sum(axis=(1, 2))
    targets = np.concatenate([first, first + second + 2])[:, None]
    history = own_model.fit(SUMS, targets, epochs=2, verbose=0).history
    assert_close(history["loss"], [0.0, 0.0], tolerances.FLOAT32, "losses")


def test_a_model_of_ones_own_refuses_larger_batches(own_model):
    with pytest.raises(Exception, match="batch_size=2 of the memory"):
        own_model.predict(SUMS, batch_size=4, verbose=0)
    # It does not remain broken.
    assert own_model.predict(SUMS, verbose=0).shape == (4, 1)


# === Precision and compilers ===
def test_bfloat16_computes_within_rounding_and_keeps_memory_float32(
    make_lm, lm, stream
):
    low = make_lm(dtype="mixed_bfloat16")
    low.compile(optimizer=keras.optimizers.SGD(0.1), weighted_metrics=[])
    randomize(low, seed=7)
    history = low.fit(
        stream, validation_data=stream, epochs=2, verbose=0
    ).history
    alone = losses_of_fit(lm, stream, epochs=2)
    assert_close(history["loss"], alone, tolerances.BFLOAT16, "losses")
    assert history["loss"] != alone
    assert np.isfinite(history["val_loss"]).all()
    for memory in low.segment_memories:
        states, _, _ = memory.bank(True)
        assert states.dtype == "float32"
    assert low.compute_dtype == "bfloat16"
    losses, _ = low.token_losses(IDS[:2], IDS[2:4], low.initial_memory(2))
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"


@pytest.mark.backend("tensorflow")
def test_xla_gives_the_losses_of_the_graph(make_lm, lm, stream):
    fast = make_lm()
    fast.compile(
        optimizer=keras.optimizers.SGD(0.1),
        jit_compile=True,
        weighted_metrics=[],
    )
    randomize(fast, seed=7)
    history = fast.fit(
        stream, validation_data=stream, epochs=2, verbose=0
    ).history
    alone = losses_of_fit(lm, stream, epochs=2)
    assert_close(history["loss"], alone, tolerances.FLOAT32, "losses")
    assert_close(
        history["val_loss"][-1],
        mean_loss(lm, stream),
        tolerances.FLOAT32,
        "validation",
    )


@pytest.mark.backend("tensorflow")
def test_a_step_is_traced_once(make_lm, monkeypatch):
    lm, traces = make_lm(num_layers=1), []
    compute_loss = lm.compute_loss
    monkeypatch.setattr(
        lm,
        "compute_loss",
        lambda *args, **kwargs: (
            traces.append(1) or compute_loss(*args, **kwargs)
        ),
    )
    ids = np.arange(8).reshape(4, 2)
    lm.fit(ids, ids, verbose=0)
    assert len(traces) == 1
