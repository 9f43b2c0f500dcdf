"""Losses, metrics, values and errors of `TransformerXLCausalLM`."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.data import SegmentStream
from keras_txl.metrics import BitsPerCharacter
from tests import tolerances
from tests.oracles.value_losses import segment_losses
from tests.oracles.weights import oracle_variables
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

RNG = np.random.default_rng(6)
IDS = RNG.integers(0, 17, size=(2, 4)).astype("int32")
TARGETS = RNG.integers(0, 17, size=(2, 4)).astype("int32")
DOCUMENTS = np.array([[0, -1, 1, 1], [2, 2, 2, -1]], "int32")
INPUTS = {"token_ids": IDS, "document_ids": DOCUMENTS}
VALID = DOCUMENTS >= 0


def nats(logits, targets):
    """Losses `(B, T)` from logits in float64, one token at a time."""
    logits = to_numpy(logits).astype("float64")
    losses = np.zeros(targets.shape)
    for place in np.ndindex(targets.shape):
        row = logits[place]
        losses[place] = np.log(np.exp(row).sum()) - row[targets[place]]
    return losses


# === Losses of values ===
def test_token_losses_are_in_token_order_in_nats(lm):
    memory = lm.initial_memory(2)
    logits, _ = lm.step(INPUTS, memory)
    losses, _ = lm.token_losses(INPUTS, TARGETS, memory)
    expected = np.where(VALID, nats(logits, TARGETS), 0.0)
    assert len(np.unique(expected[VALID])) == VALID.sum()
    assert_close(losses, expected, tolerances.FLOAT32, "losses")
    assert not to_numpy(losses)[~VALID].any()


def test_targets_on_padding_may_be_anything(lm):
    memory = lm.initial_memory(2)
    losses, _ = lm.token_losses(INPUTS, TARGETS, memory)
    anything = np.where(VALID, TARGETS, -1)
    same, _ = lm.token_losses(INPUTS, anything, memory)
    assert_close(same, losses, tolerances.EXACT, "losses")


def test_each_token_but_the_first_is_a_target_once(lm):
    text = np.random.default_rng(9).integers(0, 17, size=37)
    stream = SegmentStream(text, 2, 4)
    losses = np.concatenate(segment_losses(lm, stream, 40), axis=1)
    assert np.count_nonzero(losses) == len(text) - 1
    # Each row of the stream is a text of its own, uncut.
    inputs, targets = text[:-1].reshape(2, 18), text[1:].reshape(2, 18)
    whole, _ = lm.token_losses(inputs, targets, lm.initial_memory(2, 40))
    assert_close(losses[:, :18], whole, tolerances.FLOAT32, "losses")
    assert not losses[:, 18:].any()


def test_token_zero_is_an_ordinary_token(lm):
    """Exchanging the ids 0 and 5 with their weights changes no loss."""
    ids = np.array([[0, 5, 3, 0, 0, 7, 5, 0, 2], [5, 5, 0, 1, 0, 0, 5, 9, 0]])
    batches = [(ids[:, :4], ids[:, 1:5]), (ids[:, 4:8], ids[:, 5:])]
    losses = segment_losses(lm, batches)
    variables = oracle_variables(lm)
    for name in ("embedding", "output_bias"):
        values = variables[name].weights
        values[[0, 5]] = values[[5, 0]]
        variables[name].variable.assign(values)
    renamed = [
        tuple(np.select([x == 0, x == 5], [5, 0], x) for x in batch)
        for batch in batches
    ]
    again = segment_losses(lm, renamed)
    assert_close(
        np.concatenate(again, axis=1),
        np.concatenate(losses, axis=1),
        tolerances.FLOAT32,
        "losses",
    )


@pytest.mark.parametrize(
    "targets, message",
    [
        (TARGETS[:, :3], r"`targets` must .*\(2, 3\).*\(2, 4\)"),
        (TARGETS[:1], r"`targets` must .*\(1, 4\).*\(2, 4\)"),
        (TARGETS[..., None], r"`targets` must .*\(2, 4, 1\)"),
        (TARGETS[0], r"`targets` must .*\(4,\)"),
    ],
)
def test_targets_of_another_shape_are_an_error(lm, targets, message):
    with pytest.raises(ValueError, match=message):
        lm.token_losses(INPUTS, targets, lm.initial_memory(2))


def other_batch(lm):
    return lm.initial_memory(3)


def other_rows_of_one_part(lm):
    memory = lm.initial_memory(2)
    return {**memory, "length": memory["length"][:1]}


def other_layers(lm):
    memory = lm.initial_memory(2)
    return {**memory, "states": memory["states"][:, :1]}


def states_alone(lm):
    return {"states": lm.initial_memory(2)["states"]}


def no_dict(lm):
    return None


@pytest.mark.parametrize(
    "make, message",
    [
        (
            other_batch,
            r"another batch size.*\(3, .*initial_memory\(batch_size=2",
        ),
        (other_rows_of_one_part, r"another batch size.*length.shape=\(1,\)"),
        (other_layers, r"another model.*\(2, 1, 6, 8\).*\(batch_size, 2,"),
        (states_alone, r"dict of states, length and document.*\['states'\]"),
        (no_dict, r"dict of states, length and document.*NoneType"),
    ],
)
def test_a_memory_that_does_not_fit_is_an_error(lm, make, message):
    memory = make(lm)
    for use in (
        lambda: lm.step(IDS, memory),
        lambda: lm.token_losses(IDS, TARGETS, memory),
        lambda: lm.backbone.call_with_memory(IDS, memory),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def test_steps_follow_the_weights(lm):
    memory = lm.initial_memory(2)
    first, _ = lm.step(IDS, memory)
    randomize(lm, seed=8)
    second, _ = lm.step(IDS, memory)
    assert np.abs(to_numpy(second) - to_numpy(first)).max() > 0.1
    lm.reset_memory()
    assert_close(second, lm(IDS), tolerances.FLOAT32, "logits")


def test_steps_leave_the_banks_alone(lm):
    lm(IDS)
    lm(IDS, training=True)
    before = [to_numpy(variable).copy() for variable in lm.variables]
    _, memory = lm.step(IDS, lm.initial_memory(2))
    lm.token_losses(IDS, TARGETS, memory)
    for variable, value in zip(lm.variables, before, strict=True):
        assert_close(variable, value, tolerances.EXACT, variable.path)


def inside_tensorflow(function):
    import tensorflow as tf

    return tf.function(function)


def inside_jax(function):
    import jax

    return jax.jit(function)


@pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(
            inside_tensorflow, marks=pytest.mark.backend("tensorflow")
        ),
        pytest.param(inside_jax, marks=pytest.mark.backend("jax")),
    ],
)
def test_steps_run_inside_the_callers_own_compiled_function(lm, compiler):
    def two_steps(first, second, memory):
        _, memory = lm.step(first, memory)
        logits, memory = lm.step(second, memory)
        losses, _ = lm.token_losses(second, first, memory)
        return logits, losses, memory

    other = (IDS * 3 + 1) % 17
    found = compiler(two_steps)(
        ops.convert_to_tensor(IDS),
        ops.convert_to_tensor(other),
        lm.initial_memory(2),
    )
    expected = two_steps(IDS, other, lm.initial_memory(2))
    for ours, theirs in zip(
        keras.tree.flatten(found), keras.tree.flatten(expected), strict=True
    ):
        assert_close(ours, theirs, tolerances.FLOAT32, "result")


# === Loss and metrics of training ===
def test_the_default_compile_is_complete(make_lm):
    lm = make_lm(num_layers=1)
    lm.compile()
    assert isinstance(lm.optimizer, keras.optimizers.Adam)
    assert_close(lm.optimizer.learning_rate, 2.5e-4, 1e-9, "learning rate")
    assert lm.optimizer.global_clipnorm == 0.25
    assert lm.loss is None
    logs = lm.fit(IDS, TARGETS, verbose=0).history
    assert set(logs) == {"loss", "perplexity"}
    assert_close(
        logs["perplexity"], np.exp(logs["loss"]), tolerances.FLOAT32, "ppl"
    )


WEIGHTS = np.linspace(0.0, 2.0, 8).reshape(2, 4).astype("float32")


@pytest.mark.parametrize(
    "weights, expected",
    [
        (None, np.ones((2, 4))),
        (WEIGHTS, WEIGHTS),
        (WEIGHTS[:, 3], WEIGHTS[:, 3:4] * np.ones((2, 4))),
    ],
    ids=["none", "for_each_token", "for_each_row"],
)
def test_loss_is_the_weighted_mean_over_valid_tokens(lm, weights, expected):
    logits = np.random.default_rng(1).normal(size=(2, 4, 17)).astype("float32")
    loss = lm.compute_loss(
        INPUTS,
        ops.convert_to_tensor(TARGETS),
        ops.convert_to_tensor(logits),
        None if weights is None else ops.convert_to_tensor(weights),
    )
    expected = expected * VALID
    total = (nats(logits, TARGETS) * expected).sum() / expected.sum()
    assert_close(loss, total, tolerances.FLOAT32, "loss")


def test_a_batch_of_padding_has_loss_zero(lm):
    inputs = {"token_ids": IDS, "document_ids": np.full((2, 4), -1, "int32")}
    logs = lm.evaluate(inputs, TARGETS, verbose=0, return_dict=True)
    assert logs["loss"] == 0.0


def test_a_loss_of_ones_own_replaces_that_of_the_model(make_lm):
    lm = make_lm(num_layers=1)
    randomize(lm, seed=7)
    lm.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[],
    )
    loss = lm.evaluate(IDS, TARGETS, sample_weight=WEIGHTS, verbose=0)
    logits, _ = lm.step(IDS, lm.initial_memory(2))
    # Keras divides by the number of tokens, not by the sum of the weights.
    expected = np.mean(nats(logits, TARGETS) * WEIGHTS)
    assert_close(loss, expected, tolerances.FLOAT32, "loss")


def test_metrics_count_every_token_of_the_data_once(make_lm, stream):
    lm = make_lm(num_layers=1)
    randomize(lm, seed=7)
    larger = SegmentStream(np.arange(40) % 17, 3, 4)
    lm.evaluate(larger, verbose=0)  # by what is compiled before
    lm.compile(
        optimizer="sgd",
        weighted_metrics=[BitsPerCharacter(name="bits")],
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    logs = lm.evaluate(stream, verbose=0, return_dict=True)
    total = sum(losses.sum() for losses in segment_losses(lm, stream))
    expected = total / stream.num_targets / np.log(2)
    assert_close(logs["bits"], expected, tolerances.FLOAT32, "bits")
    # More rows than memory has: the metrics are those of the last `compile`.
    logs = lm.evaluate(larger, verbose=0, return_dict=True)
    total = sum(losses.sum() for losses in segment_losses(lm, larger))
    expected = total / larger.num_targets / np.log(2)
    assert_close(logs["bits"], expected, tolerances.FLOAT32, "bits")
    assert set(logs) == {"loss", "bits", "accuracy"}


def test_dropout_acts_in_training_alone(make_lm):
    lm = make_lm(
        num_layers=1, dropout=0.5, attention_dropout=0.5, memory_length=0
    )
    randomize(lm, seed=7)
    quiet = to_numpy(lm(IDS))
    assert_close(lm(IDS, training=False), quiet, tolerances.EXACT, "call")
    logits, _ = lm.step(IDS, lm.initial_memory(2))
    assert_close(logits, quiet, tolerances.FLOAT32, "step")
    first = to_numpy(lm(IDS, training=True))
    second = to_numpy(lm(IDS, training=True))
    assert np.abs(first - quiet).max() > 0.1
    assert np.abs(second - first).max() > 0.1


def test_what_the_first_layer_reads_was_dropped_out_once(make_lm):
    lm = make_lm(num_layers=1, dropout=0.5, memory_length=64)
    randomize(lm, seed=7)
    ids = np.arange(8 * 64, dtype="int32").reshape(8, 64) % 17
    _, memory = lm.backbone.call_with_memory(
        ids, lm.initial_memory(8), training=True
    )
    dropped = np.mean(to_numpy(memory["states"]) == 0)
    assert 0.4 < dropped < 0.6  # 0.75 if twice


# === Text ===
@pytest.fixture(scope="module")
def make_text_lm():
    """A model of bytes with its preprocessor."""
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    def make(batch_size):
        backbone = TransformerXLBackbone(
            256, 1, 2, 8, 8, memory_length=4, batch_size=batch_size, dropout=0.0
        )
        lm = TransformerXLCausalLM(
            backbone,
            TransformerXLCausalLMPreprocessor(
                TransformerXLByteTokenizer(), sequence_length=6
            ),
        )
        lm.compile(optimizer=keras.optimizers.SGD(0.0), weighted_metrics=[])
        randomize(lm, seed=3)
        return lm

    return make


@pytest.mark.parametrize("verb", ["fit", "evaluate", "predict"])
def test_text_is_refused_by_a_model_with_memory(make_text_lm, verb):
    lm = make_text_lm(2)
    with pytest.raises(
        ValueError, match=f"text for `{verb}`.*batch_size=2.*SegmentStream"
    ):
        getattr(lm, verb)(["some", "text"])


def test_text_trains_and_evaluates_a_model_without_memory(make_text_lm):
    lm = make_text_lm(None)
    texts = ["some", "text that is cut"]
    losses = []
    for text in texts:
        ids = np.frombuffer(text.encode()[:7], "uint8")[None].astype("int32")
        nats_of_text, _ = lm.token_losses(
            ids[:, :-1], ids[:, 1:], lm.initial_memory(1)
        )
        losses.append(to_numpy(nats_of_text)[0])
    expected = np.concatenate(losses).mean()
    history = lm.fit(texts, batch_size=2, shuffle=False, verbose=0).history
    assert_close(history["loss"], [expected], tolerances.FLOAT32, "fit")
    loss = lm.evaluate(texts, batch_size=2, verbose=0)
    assert_close(loss, expected, tolerances.FLOAT32, "evaluate")


def test_ids_go_straight_to_a_model_that_has_a_preprocessor(make_text_lm):
    lm = make_text_lm(2)
    stream = SegmentStream(np.arange(20), 2, 3)
    history = lm.fit(stream, validation_data=stream, verbose=0).history
    losses = segment_losses(lm, stream)
    weights = [batch[2] for batch in stream]
    means = [
        (values * weight).sum() / weight.sum()
        for values, weight in zip(losses, weights, strict=True)
    ]
    for name in ("loss", "val_loss"):
        assert_close(history[name], [np.mean(means)], tolerances.FLOAT32, name)
