"""What monitors measure, that it reaches the logs, and what it leaves alone."""

import csv
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.training import AttentionEntropy
from keras_txl.training import GradientNorms
from keras_txl.training import MemoryNorms
from keras_txl.training import Monitor
from keras_txl.training.model_state import training_variables
from keras_txl.training.probe import compile_gradient_squares
from tests.oracles.attention_oracle import distance_encoding
from tests.oracles.attention_oracle import distances_and_mask
from tests.oracles.memory_banks import bank_of
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import empty_memory
from tests.oracles.model_oracle import run_model
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import EXACT
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

RATE = 0.01


@pytest.fixture(scope="module")
def compiled(make_lm):
    """One model for all tests, as compiling is what takes the time."""
    # On TensorFlow the gradient of an untied table is sparse.
    lm = make_lm(tie_embeddings=False)
    lm.compile(keras.optimizers.SGD(RATE))
    randomize(lm, seed=5)
    lm.optimizer.build(lm.trainable_variables)
    return lm, [np.array(to_numpy(v.value)) for v in training_variables(lm)]


def restarted(compiled):
    lm, start = compiled
    for variable, value in zip(training_variables(lm), start, strict=True):
        variable.assign(value)
    return lm


@pytest.fixture
def lm(compiled):
    return restarted(compiled)


def make_stream():
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 17, size) for size in (9, 12, 2, 28)]
    return SegmentStream(documents, batch_size=2, segment_length=4)


@pytest.fixture
def stream():
    return make_stream()


class Recording(keras.callbacks.Callback):
    """Keeps the logs of batches and epochs."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.epochs = []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(dict(logs))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(dict(logs))


def fit(lm, stream, *callbacks, epochs=1):
    recording = Recording()
    history = lm.fit(
        stream, epochs=epochs, callbacks=[*callbacks, recording], verbose=0
    )
    return recording, history.history


def mean_norms(lm):
    """Mean norm of the vectors that count, for each layer, by loops."""
    states, length, _ = bank_of(lm, "train")
    means = []
    for layer in range(states.shape[0]):
        norms = []
        for row in range(states.shape[1]):
            slots = states.shape[2]
            for slot in range(slots - length[layer][row], slots):
                vector = states[layer, row, slot].astype("float64")
                norms.append(float(np.sqrt((vector**2).sum())))
        means.append(sum(norms) / len(norms))
    return means


def test_memory_norms_are_those_of_the_valid_slots(lm, stream):
    recording, history = fit(lm, stream, MemoryNorms())
    length = bank_of(lm, "train")[1]
    assert (length < 6).any() and (length > 0).all()  # some slots are empty
    for layer, mean in enumerate(mean_norms(lm)):
        name = f"memory_norm/layer_{layer}"
        assert_close(recording.epochs[-1][name], mean, FLOAT32, name)
        assert history[name] == [recording.epochs[-1][name]]


def test_an_empty_memory_has_norm_zero(lm):
    monitor = MemoryNorms()
    monitor.set_model(lm)
    lm.reset_memory()
    assert set(monitor.measure().values()) == {0.0}


def norms_of_a_training_step(lm, batch):
    """With SGD the weights tell what the gradient was."""
    before = [np.array(to_numpy(v.value)) for v in lm.trainable_variables]
    lm.train_on_batch(*batch)
    squares = {}
    for variable, old in zip(lm.trainable_variables, before, strict=True):
        gradient = (old - to_numpy(variable.value)).astype("float64") / RATE
        layer = "gradient_norm/" + variable.path.split("/")[0]
        squares[layer] = squares.get(layer, 0) + (gradient**2).sum()
    squares["gradient_norm"] = sum(squares.values())
    return {name: square**0.5 for name, square in squares.items()}


def measured(lm, probe):
    monitor = GradientNorms(probe)
    monitor.set_model(lm)
    return monitor.measure()


def assert_same_norms(found, expected):
    assert set(found) == set(expected)
    for name, norm in expected.items():
        # The difference of float32 weights is less exact than the gradient.
        assert_close(found[name], norm, 1e-4, name)


def test_gradient_norms_are_those_of_a_training_step(lm, stream):
    batch = stream.segment(3)  # has two documents
    found = measured(lm, batch)
    lm.reset_memory()
    assert_same_norms(found, norms_of_a_training_step(lm, batch))
    assert {
        "gradient_norm/token_embedding",
        "gradient_norm/transformer_layer_1",
        "gradient_norm/output_bias",
    } <= set(found)


def test_the_past_of_a_probe_is_its_memory(lm):
    ids = np.random.default_rng(1).integers(0, 17, 17)
    past, batch = SegmentStream(ids, batch_size=2, segment_length=4)
    found = measured(lm, [past, batch])
    alone = measured(lm, batch)
    lm.reset_memory()
    lm.optimizer.learning_rate = 0.0
    lm.train_on_batch(*past)
    lm.optimizer.learning_rate = RATE
    assert_same_norms(found, norms_of_a_training_step(lm, batch))
    assert abs(found["gradient_norm"] - alone["gradient_norm"]) > 1e-3


def entropies_by_loops(lm, batches):
    """Mean entropy of each layer and head on the last batch, in float64."""
    weights, config = oracle_weights(lm), OracleConfig(lm.backbone.num_layers)
    memory = empty_memory(2, lm.backbone.num_layers, 6, 8)
    for inputs, *_ in batches:
        ids, documents = inputs["token_ids"], inputs["document_ids"]
        before = memory
        result = run_model(config, weights, ids, documents, before)
        memory = result.memory
    distance, visible = distances_and_mask(
        documents, before["length"], before["document"], 6
    )
    found = np.zeros((lm.backbone.num_layers, 2))
    for layer, head in np.ndindex(*found.shape):
        query, key, relative_key, u, v = (
            weights[f"layer_{layer}.{name}"][..., head, :]
            for name in (
                *("query", "key", "relative_key"),
                *("content_bias", "position_bias"),
            )
        )
        entropies = []
        for row, t in zip(*np.nonzero(documents >= 0), strict=True):
            context = np.concatenate(
                [before["states"][row, layer], result.layer_inputs[row, layer]]
            )
            q = context[6 + t] @ query
            scores = []
            for s in np.flatnonzero(visible[row, t]):
                r = distance_encoding([distance[row, t, s]], 8)[0]
                k, r = context[s] @ key, r @ relative_key
                scores.append(((q + u) @ k + (q + v) @ r) / 2)
            mass = np.exp(scores)
            share = mass / mass.sum()
            entropies.append(-(share * np.log(share)).sum())
        found[layer, head] = sum(entropies) / len(entropies)
    return found


def test_attention_entropy_is_that_of_the_loops(lm):
    ids = np.random.default_rng(4).integers(0, 17, (2, 2, 4)).astype("int32")
    documents = np.array(
        [[[0, 0, 0, 0], [0, -1, 0, 1]], [[0, -1, 0, 1], [-1, 1, 1, -1]]],
        "int32",
    )
    batches = [
        ({"token_ids": x, "document_ids": d}, x)
        for x, d in zip(ids, documents, strict=True)
    ]
    monitor = AttentionEntropy(batches, per_head=True)
    monitor.set_model(lm)
    found = monitor.measure()
    expected = entropies_by_loops(lm, batches)
    assert expected.min() > 0.1
    for (layer, head), entropy in np.ndenumerate(expected):
        name = f"attention_entropy/layer_{layer}"
        mean = expected[layer].mean()
        assert_close(found.pop(f"{name}/head_{head}"), entropy, FLOAT32, name)
        assert_close(found[name], mean, FLOAT32, name)
    assert len(found) == len(expected)


def test_monitors_change_nothing_and_reach_files(
    compiled, stream, tmp_path, monkeypatch
):
    # Files of numbers need no TensorBoard: an import of it fails here.
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    lm = restarted(compiled)
    fit(lm, make_stream(), epochs=2)
    expected = [np.array(to_numpy(v.value)) for v in training_variables(lm)]
    restarted(compiled)
    path = tmp_path / "log.csv"
    recording, _ = fit(
        lm,
        stream,
        MemoryNorms(every_steps=2),
        GradientNorms(stream.segment(0), every_steps=3),
        AttentionEntropy(stream.segment(0)),
        keras.callbacks.CSVLogger(path),
        epochs=2,
    )
    found = [np.array(to_numpy(v.value)) for v in training_variables(lm)]
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, EXACT, "a variable after training")
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    for row, logs in zip(rows, recording.epochs, strict=True):
        for name in (
            "memory_norm/layer_1",
            "gradient_norm/output_bias",
            "attention_entropy/layer_0",
        ):
            assert float(row[name]) == pytest.approx(logs[name])
            assert logs[name] > 0
    steps = len(stream)
    measured = [
        ("memory_norm/layer_0" in logs, "gradient_norm" in logs)
        for logs in recording.batches
    ]
    expected = [(s % 2 == 0, s % 3 == 0) for s in range(1, steps + 1)]
    assert measured == 2 * expected
    assert recording.epochs[0] != recording.epochs[1]


def scalars_of(folder):
    """What event files hold: values by name and step."""
    import tensorflow as tf

    found = {}
    for path in sorted(folder.glob("events.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = float(tf.make_ndarray(value.tensor))
                    found.setdefault(value.tag, {})[event.step] = number
    return found


@pytest.mark.backend("tensorflow")  # which writes the files on any backend
def test_monitors_reach_tensorboard(lm, stream, tmp_path):
    recording, history = fit(
        lm,
        stream,
        MemoryNorms(every_steps=2),
        GradientNorms(stream.segment(0)),
        AttentionEntropy(stream.segment(0), per_head=True),
        keras.callbacks.TensorBoard(tmp_path, update_freq=1, write_graph=False),
        epochs=2,
    )
    found = scalars_of(tmp_path / "train")
    for name in (
        "memory_norm/layer_1",
        "gradient_norm",
        "gradient_norm/transformer_layer_0",
        "attention_entropy/layer_0/head_1",
    ):
        written = found[f"epoch_{name}"]
        assert written == pytest.approx(dict(enumerate(history[name])))
    steps = [
        (step, logs["memory_norm/layer_1"])
        for step, logs in enumerate(recording.batches, 1)
        if "memory_norm/layer_1" in logs
    ]
    assert len(steps) == 2 * (len(stream) // 2)
    assert found["batch_memory_norm/layer_1"] == pytest.approx(dict(steps))


def test_a_monitor_of_ones_own(lm, stream):
    class Constant(Monitor):
        def measure(self):
            return {"constant": float(len(self.model.layers))}

    _, history = fit(lm, stream, Constant(), epochs=2)
    assert history["constant"] == [len(lm.layers)] * 2


def test_memory_norms_need_a_memory(make_lm, stream):
    lm = make_lm(batch_size=None, num_layers=1)
    with pytest.raises(ValueError, match="Build it with `batch_size`"):
        lm.fit(stream, callbacks=[MemoryNorms()], shuffle=False, verbose=0)


@pytest.mark.parametrize("probe", [[], [(1,)], (1, 2, 3, 4)])
def test_a_probe_holds_batches(probe):
    with pytest.raises(ValueError, match=r"Use `stream.segment\(0\)`"):
        GradientNorms(probe)


@pytest.mark.backend("tensorflow")
def test_gradients_of_several_replicas_are_refused():
    strategy = SimpleNamespace(num_replicas_in_sync=2)
    with pytest.raises(ValueError, match="Leave the callback out"):
        compile_gradient_squares(SimpleNamespace(distribute_strategy=strategy))
