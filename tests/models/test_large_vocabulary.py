"""Models whose loss never holds the logits of all tokens."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.metrics import BitsPerCharacter
from keras_txl.metrics import Perplexity
from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

CASES = {
    "chunked": dict(loss_chunk=3),
    "chunked_projection": dict(
        loss_chunk=4, embedding_dim=6, tie_embeddings=False
    ),
    "sampled": dict(num_sampled=7),
    "adaptive": dict(cutoffs=[4, 9]),
    "adaptive_div2": dict(cutoffs=[4, 9], div_val=2, tie_projections=False),
}


@pytest.fixture
def make(make_lm):
    def make(**changes):
        lm = make_lm(**changes)
        randomize(lm, seed=4)
        lm.compile(
            optimizer=keras.optimizers.SGD(0.1),
            metrics=[BitsPerCharacter(name="bits")],
            weighted_metrics=[Perplexity()],
        )
        return lm

    return make


def stream(batch_size=2):
    ids = np.random.default_rng(0).integers(0, 17, 60)
    stream = SegmentStream([ids[:23], ids[23:]], batch_size, 5)
    assert any((weights == 0).any() for _, _, weights in stream)
    return stream


def value_nats(lm, batch_size=2):
    """Nats of every target, with memory as a value."""
    memory = lm.initial_memory(batch_size)
    nats = []
    for inputs, targets, weights in stream(batch_size):
        losses, memory = lm.token_losses(inputs, targets, memory)
        nats.extend(to_numpy(losses)[weights > 0])
    return np.array(nats, "float64")


@pytest.mark.parametrize("case", CASES)
def test_evaluate_is_exact_and_feeds_the_metrics(make, case):
    lm = make(**CASES[case])
    logs = lm.evaluate(stream(), verbose=0, return_dict=True)
    mean = value_nats(lm).mean()
    assert_close(
        np.log(logs["perplexity"]), mean, tolerances.FLOAT32, "perplexity"
    )
    assert set(logs) == {"loss", "bits", "perplexity"}
    # `metrics` leave out padding, though not what has no weight.
    assert_close(logs["bits"] * np.log(2), mean, tolerances.FLOAT32, "bits")


@pytest.mark.parametrize("case", CASES)
def test_token_losses_are_read_off_the_step(make, case):
    lm = make(**CASES[case])
    inputs, targets, _ = stream()[0]
    memory = lm.initial_memory(2)
    losses, _ = lm.token_losses(inputs, targets, memory)
    logits, _ = lm.step(inputs, memory)
    log_probs = keras.ops.log_softmax(logits)
    chosen = np.take_along_axis(
        to_numpy(log_probs), np.asarray(targets)[..., None], axis=-1
    )
    assert_close(losses, -chosen[..., 0], tolerances.FLOAT32, case)


@pytest.mark.parametrize("case", ["chunked", "chunked_projection"])
def test_a_chunked_loss_trains_like_the_plain_one(make, case):
    plain = {**CASES[case], "loss_chunk": None}
    histories, weights = [], []
    for arguments in (CASES[case], plain):
        lm = make(**arguments)
        history = lm.fit(stream(), epochs=2, verbose=0).history
        histories.append(history)
        weights.append(lm.get_weights())
    assert_close(
        histories[0]["loss"],
        histories[1]["loss"],
        tolerances.FLOAT32,
        "losses of two epochs",
    )
    assert_close(
        np.log(histories[0]["perplexity"]),
        np.log(histories[1]["perplexity"]),
        tolerances.FLOAT32,
        "metrics of two epochs",
    )
    for ours, theirs in zip(*weights, strict=True):
        assert_close(ours, theirs, tolerances.FLOAT32, "trained weights")


def test_all_tokens_as_candidates_train_like_the_plain_loss(make):
    losses = [
        make(**arguments).fit(stream(), verbose=0).history["loss"]
        for arguments in ({"num_sampled": 17}, {})
    ]
    assert_close(losses[0], losses[1], tolerances.FLOAT32, "losses")


def test_few_candidates_are_drawn_anew_at_every_step(make):
    lm = make(num_sampled=3)
    lm.compile(optimizer=keras.optimizers.SGD(0.0), weighted_metrics=None)
    batch = stream()[0]
    losses = []
    for _ in range(3):
        lm.reset_memory()
        losses.append(float(lm.train_on_batch(*batch)))
    assert len(set(losses)) == 3


def test_training_lowers_the_exact_loss_of_a_sampled_model(make):
    lm = make(num_sampled=6)
    before = value_nats(lm).mean()
    lm.fit(stream(), epochs=4, verbose=0)
    assert value_nats(lm).mean() < before


@pytest.mark.parametrize("case", ["adaptive_div2", "sampled"])
def test_larger_batches_are_evaluated_exactly(make, case):
    lm = make(**CASES[case])
    logs = lm.evaluate(stream(4), verbose=0, return_dict=True)
    assert_close(
        np.log(logs["perplexity"]),
        value_nats(lm, 4).mean(),
        tolerances.FLOAT32,
        "perplexity",
    )


@pytest.mark.parametrize("case", ["chunked", "adaptive"])
def test_the_output_is_the_hidden_state(make, case):
    lm = make(**CASES[case])
    ids = np.array([[1, 2, 16], [4, 5, 6]])
    assert lm.predict(ids, verbose=0).shape == (2, 3, 8)
    lm.reset_memory()
    logits, _ = lm.step(ids, lm.initial_memory(2))
    assert_close(lm.logits(ids), logits, tolerances.FLOAT32, "logits")


@pytest.mark.parametrize("case", ["sampled", "adaptive_div2"])
def test_a_saved_model_comes_back_compiled(make, case, tmp_path):
    lm = make(**CASES[case])
    lm.fit(stream(), verbose=0)
    lm.save(tmp_path / "lm.keras")
    again = keras.models.load_model(tmp_path / "lm.keras")
    assert again.backbone.get_config() == lm.backbone.get_config()
    logs = lm.evaluate(stream(), verbose=0, return_dict=True)
    assert again.evaluate(stream(), verbose=0, return_dict=True) == logs


def test_weights_move_between_plain_chunked_and_sampled(make, tmp_path):
    path = tmp_path / "lm.weights.h5"
    trained = make(num_sampled=7)
    trained.save_weights(path)
    for arguments in ({}, {"loss_chunk": 2}):
        lm = make(**arguments)
        randomize(lm, seed=9)
        lm.load_weights(path)
        assert_close(
            value_nats(lm), value_nats(trained), tolerances.FLOAT32, "nats"
        )


def test_generation_follows_the_log_probabilities(make):
    lm = make(**CASES["adaptive_div2"], eval_memory_length=12)
    lm.compile(optimizer="sgd", sampler="greedy")
    text = {
        "token_ids": np.array([[3, 16, 0, 0, 0]]),
        "padding_mask": np.array([[1, 1, 0, 0, 0]], bool),
    }
    found = to_numpy(lm.generate(text, stop_token_ids=None)["token_ids"])[0]
    logits, _ = lm.step(found[None], lm.initial_memory(1))
    assert found[2:].tolist() == to_numpy(logits)[0, 1:-1].argmax(-1).tolist()


@pytest.mark.parametrize("case", ["chunked", "sampled", "adaptive_div2"])
def test_mixed_precision_trains(make, case):
    exact = make(**CASES[case]).evaluate(stream(), verbose=0, return_dict=True)
    lm = make(**CASES[case], dtype="mixed_bfloat16")
    logs = lm.evaluate(stream(), verbose=0, return_dict=True)
    assert_close(logs["loss"], exact["loss"], tolerances.BFLOAT16, "loss")
    history = lm.fit(stream(), epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize("case", ["chunked", "adaptive_div2"])
def test_xla_trains_the_same(make, case):
    """Its shapes are static, whatever the number of tokens in a tail."""
    histories = []
    for jit_compile in (False, True):
        lm = make(**CASES[case])
        lm.compile(optimizer=keras.optimizers.SGD(0.1), jit_compile=jit_compile)
        histories.append(lm.fit(stream(), verbose=0).history["loss"])
    assert_close(histories[1], histories[0], tolerances.FLOAT32, "losses")


@pytest.mark.backend("jax")
@pytest.mark.parametrize("case", [None, *CASES])
def test_training_makes_no_tensor_of_all_logits(make_lm, case):
    """Of every value of the forward and backward pass the size is known."""
    import jax

    vocabulary, tokens = 500, 2 * 64
    arguments = dict(CASES.get(case, {}), vocabulary_size=vocabulary)
    lm = make_lm(**arguments)
    ids = np.zeros((2, 64), "int32")

    def loss(weights):
        state = zip(lm.trainable_variables, weights, strict=True)
        with keras.StatelessScope(state_mapping=list(state)):
            return lm.compute_loss(ids, ids, lm(ids, training=True))

    weights = [variable.value for variable in lm.trainable_variables]
    sizes = list(_sizes(jax.make_jaxpr(jax.grad(loss))(weights).jaxpr))
    expected = tokens * vocabulary
    # The widest of the others: the table, here 500 rows of 8.
    assert (max(sizes) >= expected) == (case is None)
    assert case is None or max(sizes) <= expected / 3


def _sizes(jaxpr):
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield int(np.prod(variable.aval.shape))
        for value in equation.params.values():
            for each in value if isinstance(value, (list, tuple)) else [value]:
                inner = getattr(each, "jaxpr", each)
                if hasattr(inner, "eqns"):
                    yield from _sizes(inner)


@pytest.mark.parametrize("name", ["metrics", "weighted_metrics"])
def test_metrics_on_logits_are_refused(make_lm, name):
    lm = make_lm(loss_chunk=2)
    with pytest.raises(ValueError, match=f"`{name}`.*Perplexity"):
        lm.compile(optimizer="sgd", **{name: ["accuracy"]})
    with pytest.raises(ValueError, match="hidden states"):
        lm.compile(optimizer="sgd", loss="mse")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"div_val": 2}, "needs `cutoffs`"),
        ({"num_sampled": 18}, "at most `vocabulary_size`"),
        ({"num_sampled": 3, "cutoffs": [4]}, "only one"),
        ({"loss_chunk": 0}, "`loss_chunk`"),
        ({"cutoffs": [4], "tie_projections": [True]}, "2 bins"),
        ({"cutoffs": [17]}, "inside"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make_lm, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_lm(**arguments)
