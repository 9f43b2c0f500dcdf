"""Perplexity and bits per character against NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.metrics import BitsPerCharacter
from keras_txl.metrics import Perplexity
from keras_txl.metrics.token_loss_metric import token_losses
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close

METRICS = [Perplexity, BitsPerCharacter]


def reference_losses(targets, logits):
    """Minus log softmax, one position at a time."""
    targets, logits = np.asarray(targets), np.asarray(logits, "float64")
    losses = np.zeros(targets.shape)
    for place in np.ndindex(targets.shape):
        row = logits[place] - logits[place].max()
        losses[place] = np.log(np.exp(row).sum()) - row[targets[place]]
    return losses


def reference_result(metric, mean_nats):
    if metric is Perplexity:
        return np.exp(mean_nats)
    return mean_nats / np.log(2)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 7, (3, 4))
    logits = rng.normal(0, 2, (3, 4, 7)).astype("float32")
    weights = rng.uniform(0, 2, (3, 4)).astype("float32")
    weights[0, 1:] = 0
    return targets, logits, weights


def test_token_losses_equal_the_reference(case):
    targets, logits, _ = case
    losses = token_losses(targets, logits)
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"
    assert_close(losses, reference_losses(targets, logits), FLOAT32, "losses")


def test_token_losses_of_large_logits_are_finite():
    logits = np.array([[[1e4, -1e4], [-1e30, 0.0]]], "float32")
    losses = token_losses(np.array([[0, 0]]), logits)
    assert_close(losses, [[0.0, 1e30]], FLOAT32, "losses")


@pytest.mark.parametrize("metric", METRICS)
def test_result_is_a_function_of_the_mean_loss(metric, case):
    targets, logits, weights = case
    losses = reference_losses(targets, logits)
    for weight in (weights, weights[:, 0], None):
        full = np.ones((3, 4)) if weight is None else weight
        full = full[:, None] + 0 * losses if full.ndim == 1 else full
        instance = metric()
        instance.update_state(targets, logits, weight)
        expected = reference_result(metric, (losses * full).sum() / full.sum())
        assert_close(instance.result(), expected, FLOAT32, metric.__name__)


@pytest.mark.parametrize("metric", METRICS)
def test_batches_count_by_token_and_not_by_batch(metric):
    """Losses of 2 and 4 nats: exp(3), not the mean of exp(2) and exp(4)."""
    instance = metric()
    for loss, count in ((2.0, 1), (4.0, 1), (4.0, 2), (2.0, 2)):
        logits = np.zeros((1, count, 2), "float32")
        logits[..., 1] = np.log(np.expm1(loss))
        instance.update_state(np.zeros((1, count), int), logits)
    expected = reference_result(metric, 3.0)
    assert_close(instance.result(), expected, FLOAT32, "result")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("wrong", [-1, 1000])
def test_targets_without_weight_may_hold_any_id(metric, wrong, case):
    targets, logits, weights = case
    plain, padded = metric(), metric()
    plain.update_state(targets, logits, weights)
    padded.update_state(np.where(weights == 0, wrong, targets), logits, weights)
    assert float(padded.result()) == float(plain.result())


@pytest.mark.parametrize("metric", METRICS)
def test_logits_without_weight_may_be_anything(metric, case):
    targets, logits, weights = case
    plain, broken = metric(), metric()
    plain.update_state(targets, logits, weights)
    logits = np.where(weights[..., None] == 0, np.nan, logits)
    broken.update_state(targets, logits, weights)
    assert float(broken.result()) == float(plain.result())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_logits_are_summed_in_float32(metric, dtype, case):
    targets, logits, _ = case
    low = ops.cast(logits, dtype)
    exact = ops.convert_to_numpy(ops.cast(low, "float32"))
    instance = metric()
    for _ in range(300):  # a float16 total would stick or overflow
        instance.update_state(targets, low)
    mean = reference_losses(targets, exact).mean()
    expected = reference_result(metric, mean)
    assert_close(instance.result(), expected, 2 * FLOAT32, "result")


def test_totals_are_float32_under_another_float_type():
    keras.config.set_floatx("float16")
    try:
        assert Perplexity().dtype == "float32"
    finally:
        keras.config.set_floatx("float32")


@pytest.mark.parametrize("metric", METRICS)
def test_targets_may_have_a_last_axis_of_one(metric, case):
    targets, logits, weights = case
    plain, deep = metric(), metric()
    plain.update_state(targets, logits, weights)
    deep.update_state(targets[..., None], logits, weights)
    assert float(deep.result()) == float(plain.result())


@pytest.mark.parametrize("metric", METRICS)
def test_known_losses_can_be_added(metric, case):
    targets, logits, weights = case
    direct, added = metric(), metric()
    direct.update_state(targets, logits, weights)
    losses = reference_losses(targets, logits).astype("float32")
    added.add_losses(ops.convert_to_tensor(losses), weights)
    assert_close(added.result(), direct.result(), FLOAT32, "result")


@pytest.mark.parametrize("metric, empty", [(Perplexity, 1), (METRICS[1], 0)])
def test_reset_forgets_everything(metric, empty, case):
    instance = metric()
    assert float(instance.result()) == empty
    instance.update_state(*case)
    assert float(instance.result()) != empty
    instance.reset_state()
    assert float(instance.result()) == empty


@pytest.mark.parametrize("metric", METRICS)
def test_shapes_that_do_not_fit_are_named(metric):
    with pytest.raises(ValueError, match=r"y_true.shape=\(2,\)"):
        metric().update_state(np.zeros(2, int), np.zeros((2, 3, 5)))


@pytest.mark.parametrize("metric", METRICS)
def test_configuration_makes_the_same_metric(metric):
    config = metric(name="mine").get_config()
    again = metric.from_config(config)
    assert again.name == "mine"
    assert again.get_config() == config
    serialized = keras.saving.serialize_keras_object(metric())
    assert serialized["registered_name"] == f"keras_txl>{metric.__name__}"
    assert type(keras.saving.deserialize_keras_object(serialized)) is metric
