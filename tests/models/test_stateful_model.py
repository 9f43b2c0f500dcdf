"""What calls, `evaluate` and `predict` do to the memory banks."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles.memory_banks import IDS
from tests.oracles.memory_banks import Batches
from tests.oracles.memory_banks import X
from tests.oracles.memory_banks import Y
from tests.oracles.memory_banks import as_tf_data
from tests.oracles.memory_banks import assert_same_bank
from tests.oracles.memory_banks import bank_of
from tests.oracles.memory_banks import fill
from tests.oracles.value_losses import mean_loss
from tests.oracles.value_losses import segment_losses
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


# === Calls and resets ===
def test_a_call_advances_the_evaluation_bank_alone(lm):
    evaluation, training = fill(lm)
    lm(IDS[4:6])
    assert_same_bank(bank_of(lm, "train"), training, "training bank")
    assert np.abs(bank_of(lm, "eval")[0] - evaluation[0]).max() > 0.1
    assert bank_of(lm, "eval")[1].tolist() == [[6, 6], [6, 6]]


def test_a_call_in_training_advances_the_training_bank_alone(lm):
    evaluation, training = fill(lm)
    lm(IDS[4:6], training=True)
    assert_same_bank(bank_of(lm, "eval"), evaluation, "evaluation bank")
    assert np.abs(bank_of(lm, "train")[0] - training[0]).max() > 0.1


@pytest.mark.parametrize("bank", ["train", "eval", "all"])
def test_reset_memory_empties_the_chosen_bank(lm, bank):
    before = dict(zip(("eval", "train"), fill(lm), strict=True))
    lm.reset_memory(bank)
    for name in ("train", "eval"):
        states, length, document = bank_of(lm, name)
        if bank in (name, "all"):
            assert not states.any() and not length.any()
            assert (document == -1).all()
        else:
            assert_same_bank(bank_of(lm, name), before[name], name)


def test_reset_memory_empties_the_chosen_rows(lm):
    evaluation, training = fill(lm)
    lm.reset_memory("eval", rows=[1])
    states, length, document = bank_of(lm, "eval")
    assert not states[:, 1].any()
    assert length.tolist() == [[4, 0], [4, 0]]
    assert document.tolist() == [[0, -1], [0, -1]]
    assert_close(states[:, 0], evaluation[0][:, 0], tolerances.EXACT, "row 0")
    assert_same_bank(bank_of(lm, "train"), training, "training bank")


def test_a_model_after_a_reset_is_as_good_as_new(lm):
    first = to_numpy(lm(IDS[:2]))
    again = to_numpy(lm(IDS[:2]))
    assert np.abs(again - first).max() > 0.01
    lm.reset_memory()
    assert_close(lm(IDS[:2]), first, tolerances.EXACT, "logits")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"bank": "valid"}, "'train', 'eval' or 'all'. Received: bank='valid'"),
        ({"rows": [2]}, r"`rows` must lie in \[0, 2\). Received: rows=\[2\]"),
        ({"rows": [-1]}, r"rows=\[-1\]"),
    ],
)
def test_reset_memory_refuses_what_it_does_not_have(lm, arguments, message):
    with pytest.raises(ValueError, match=message):
        lm.reset_memory(**arguments)


@pytest.mark.parametrize("training", [False, True])
def test_rows_absent_from_a_batch_keep_their_memory(lm, training):
    bank = "train" if training else "eval"
    lm(IDS[:2], training=training)
    before = bank_of(lm, bank)
    lm(IDS[2:3], training=training)
    after = bank_of(lm, bank)
    for old, new in zip(before, after, strict=True):
        assert_close(new[:, 1], old[:, 1], tolerances.EXACT, "absent row")
    assert after[1][:, 0].tolist() == [6, 6]
    # Row 0 of the full batch that follows continues row 0 of the short one.
    logits = to_numpy(lm(IDS[4:6], training=training))
    memory = lm.initial_memory(2)
    _, memory = lm.step(IDS[:2], memory)
    row = {key: value[:1] for key, value in memory.items()}
    _, row = lm.step(IDS[2:3], row)
    row_logits, _ = lm.step(IDS[4:5], row)
    other = {key: value[1:] for key, value in memory.items()}
    other_logits, _ = lm.step(IDS[5:6], other)
    expected = np.concatenate([to_numpy(row_logits), to_numpy(other_logits)])
    assert_close(logits, expected, tolerances.FLOAT32, "logits")


def test_a_call_with_too_many_rows_names_the_way_out(lm):
    before = bank_of(lm, "eval")
    with pytest.raises(
        ValueError, match="batch_size=2 .* 3 rows.*`call_with_memory`"
    ):
        lm(IDS[:3])
    assert_same_bank(bank_of(lm, "eval"), before, "evaluation bank")


# === Evaluate and predict ===
def test_evaluate_starts_clean_and_leaves_the_training_bank(lm, stream):
    _, training = fill(lm)
    # Documents of a stream are new in every pass, those of arrays are not.
    first = lm.evaluate(IDS[:8], IDS[8:16], verbose=0)
    assert lm.evaluate(IDS[:8], IDS[8:16], verbose=0) == first
    first = lm.evaluate(stream, verbose=0)
    assert lm.evaluate(stream, verbose=0) == first
    assert_close(first[0], mean_loss(lm, stream), tolerances.FLOAT32, "loss")
    assert_same_bank(bank_of(lm, "train"), training, "training bank")


def test_predict_starts_clean_and_carries_memory(lm):
    _, training = fill(lm)
    first = lm.predict(IDS[:8], verbose=0)
    assert_close(
        lm.predict(IDS[:8], verbose=0), first, tolerances.EXACT, "again"
    )
    memory = lm.initial_memory(2)
    for k in range(0, 8, 2):
        logits, memory = lm.step(IDS[k : k + 2], memory)
        assert_close(first[k : k + 2], logits, tolerances.FLOAT32, f"row {k}")
    assert_same_bank(bank_of(lm, "train"), training, "training bank")


def thirds(x, y):
    return [
        (x[k : k + 3], y[k : k + 3], np.ones((3, 4)))
        for k in range(0, len(x), 3)
    ]


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
def test_evaluate_takes_more_rows_than_the_memory_has(lm, arguments):
    arguments = arguments() if callable(arguments) else arguments
    evaluation, training = fill(lm)
    loss, perplexity = lm.evaluate(**arguments, verbose=0)
    expected = mean_loss(lm, thirds(X, Y))
    assert_close(loss, expected, tolerances.FLOAT32, "loss")
    assert_close(perplexity, np.exp(expected), tolerances.FLOAT32, "ppl")
    assert_same_bank(bank_of(lm, "train"), training, "training bank")
    assert_same_bank(bank_of(lm, "eval"), evaluation, "evaluation bank")


def test_predict_takes_more_rows_than_the_memory_has(lm):
    logits = lm.predict(X, batch_size=3, verbose=0)
    memory = lm.initial_memory(3)
    for k in range(0, 9, 3):
        values, memory = lm.step(X[k : k + 3], memory)
        assert_close(logits[k : k + 3], values, tolerances.FLOAT32, f"row {k}")


def test_larger_evaluation_follows_the_weights(lm):
    first = lm.evaluate(X, Y, batch_size=3, verbose=0)
    randomize(lm, seed=8)
    second = lm.evaluate(X, Y, batch_size=3, verbose=0)
    assert abs(second[0] - first[0]) > 0.01
    expected = mean_loss(lm, thirds(X, Y))
    assert_close(second[0], expected, tolerances.FLOAT32, "loss")


def test_larger_validation_is_compiled_once(lm):
    built = []
    original = lm.graph_for_batch
    lm.graph_for_batch = lambda rows: built.append(rows) or original(rows)
    try:
        for _ in range(3):
            lm.evaluate(IDS[:5], IDS[:5], batch_size=5, verbose=0)
        twin = lm._twin(5)
        compiled = twin.test_function
        lm.evaluate(IDS[:5], IDS[:5], batch_size=5, verbose=0)
        assert twin.test_function is compiled is not None
    finally:
        del lm.graph_for_batch
    assert built == [5]


def test_larger_evaluation_leaves_nothing_behind(lm):
    names = [variable.path for variable in lm.variables]
    layers = [layer.name for layer in lm.layers]
    lm.evaluate(X, Y, batch_size=3, verbose=0)
    assert [variable.path for variable in lm.variables] == names
    assert [layer.name for layer in lm.layers] == layers


def test_a_shorter_evaluation_batch_uses_the_first_rows(lm):
    loss = lm.evaluate(X, Y, batch_size=1, verbose=0)[0]
    singles = [(X[k : k + 1], Y[k : k + 1], np.ones((1, 4))) for k in range(9)]
    assert_close(loss, mean_loss(lm, singles), tolerances.FLOAT32, "loss")


def test_the_last_batch_may_be_short(lm):
    loss = lm.evaluate(X, Y, verbose=0)[0]  # 2, 2, 2, 2, 1 rows
    # Row 0 is there in every batch, row 1 in all but the last.
    rows = [
        segment_losses(
            lm, [(X[k : k + 1], Y[k : k + 1]) for k in range(r, n, 2)]
        )
        for r, n in ((0, 9), (1, 8))
    ]
    expected = np.mean(np.concatenate(rows[0] + rows[1]))
    assert_close(loss, expected, tolerances.FLOAT32, "loss")


class Broken(Batches):
    """Raises at one of its batches."""

    def __init__(self, *arrays, rows, at):
        super().__init__(*arrays, rows=rows)
        self.at = at

    def __getitem__(self, index):
        inputs, targets = super().__getitem__(index)
        if index >= self.at:
            return inputs, targets[:, :-1]
        return inputs, targets


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("at", [0, 1])
def test_the_model_survives_an_evaluation_that_fails(lm, rows, at):
    expected = mean_loss(lm, thirds(X, Y))
    weights = [to_numpy(weight).copy() for weight in lm.trainable_weights]
    with pytest.raises(Exception):
        lm.evaluate(Broken(X, Y, rows=rows, at=at), verbose=0)
    for variable, value in zip(lm.trainable_weights, weights, strict=True):
        assert_close(variable, value, tolerances.EXACT, variable.path)
    loss = lm.evaluate(X, Y, batch_size=3, verbose=0)[0]
    assert_close(loss, expected, tolerances.FLOAT32, "loss")
    assert lm(IDS[:2]).shape == (2, 4, 17)


@pytest.mark.parametrize("at", [0, 1])
def test_the_model_survives_a_prediction_that_fails(lm, at):
    class Unknown(Batches):
        def __getitem__(self, index):
            (token_ids,) = super().__getitem__(index)
            return {"ids" if index >= at else "token_ids": token_ids}

    expected = lm.predict(IDS[:4], verbose=0)
    with pytest.raises(Exception):
        lm.predict(Unknown(IDS[:4], rows=2), verbose=0)
    again = lm.predict(IDS[:4], verbose=0)
    assert_close(again, expected, tolerances.EXACT, "prediction")
