"""What trains in fine-tuning, how fast, and how far memory reaches."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.training import GradualUnfreezing
from keras_txl.training import ResumeTraining
from keras_txl.training import WidenMemory
from keras_txl.training import layerwise_decay
from keras_txl.training import make_optimizer
from keras_txl.training.layer_rates import variables_by_depth
from tests.oracles.weights import randomize
from tests.tolerances import REORDERED
from tests.tolerances import assert_close
from tests.tolerances import to_numpy
from tests.training.interrupted_run import StopAt
from tests.training.interrupted_run import assert_same_run
from tests.training.interrupted_run import make_stream
from tests.training.interrupted_run import put
from tests.training.interrupted_run import snapshot
from tests.training.interrupted_run import stop


@pytest.fixture(scope="module")
def stream():
    ids = np.random.default_rng(2).integers(0, 17, size=17)
    return SegmentStream(ids, batch_size=2, segment_length=4)


def values(lm):
    return {v.path: to_numpy(v.value) for v in lm.trainable_variables}


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_factor_multiplies_the_step_and_the_decay(weight_decay):
    start = np.array([1.0, -2.0, 3.0], "float32")
    gradient = np.array([0.5, 0.1, -1.0], "float32")
    steps = {}
    for factor in (1.0, 0.25, 0.0):
        variable = keras.Variable(start, name="kernel")
        optimizer = make_optimizer(
            "adamw",
            0.1,
            weight_decay=weight_decay,
            global_clipnorm=None,
            rate_factors={"kernel": factor},
        )
        optimizer.build([variable])
        # Iterations, rate and two moments: no variable of the model.
        assert len(optimizer.variables) == 4
        optimizer.apply([keras.ops.convert_to_tensor(gradient)])
        steps[factor] = to_numpy(variable.value) - start
    assert np.abs(steps[1.0]).min() > 0.05
    assert_close(steps[0.25], steps[1.0] / 4, REORDERED, "a quarter")
    assert_close(steps[0.0], steps[1.0] * 0, 0, "frozen")


@pytest.mark.backend("tensorflow")
def test_factors_survive_serialization():
    optimizer = make_optimizer("lamb", 0.1, rate_factors={"table": 0.5})
    config = keras.saving.serialize_keras_object(optimizer)
    loaded = keras.saving.deserialize_keras_object(config)
    assert type(loaded) is type(optimizer)
    assert loaded.rate_factors == {"table": 0.5}


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(
    "arguments", [{}, {"position": "relative_clipped", "max_distance": 4}]
)
def test_rates_fall_from_the_head_to_the_embedding(make_lm, arguments):
    lm = make_lm(**arguments)
    optimizer = make_optimizer(
        "adam", 1e-3, rate_factors=layerwise_decay(lm, 0.5)
    )
    groups = variables_by_depth(lm)
    found = [{optimizer.rate_factor(v) for v in group} for group in groups]
    assert found == [{0.125}, {0.25}, {0.5}, {1.0}]
    assert sum(map(len, groups)) == len(lm.trainable_variables)
    shared = lm.backbone.attention_biases
    if shared is None:
        shared = lm.backbone.transformer_layers[1].attention.position_terms
    assert {v.path for v in shared.variables} <= {v.path for v in groups[0]}


def test_blocks_join_one_after_the_other_and_memory_widens(make_lm, stream):
    lm = make_lm(batch_size=2)
    randomize(lm, seed=4)
    lm.compile(make_optimizer("adam", 0.01, rate_factors={}))
    groups = variables_by_depth(lm)
    moved, limits = [], []

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.before = values(self.model)
            limits.append(lm.backbone.memory_layers[0].reading_limit)

        def on_epoch_end(self, epoch, logs=None):
            after = values(self.model)
            moved.append(
                [
                    any(
                        (after[v.path] != self.before[v.path]).any()
                        for v in group
                    )
                    for group in groups
                ]
            )

    callbacks = [GradualUnfreezing(), WidenMemory([0, 3]), Watch()]
    losses = lm.fit(stream, epochs=3, callbacks=callbacks, verbose=0)
    assert all(np.isfinite(losses.history["loss"]))
    assert moved == [
        [False, False, False, True],
        [False, False, True, True],
        [False, True, True, True],
    ]
    assert limits == [0, 3, 3]
    assert lm.backbone.memory_layers[0].reading_limit is None
    assert not lm.optimizer.frozen


def test_narrow_memory_changes_what_training_reads_not_what_it_keeps(make_lm):
    lm = make_lm(num_layers=1, batch_size=1)
    randomize(lm, seed=5)
    memory = lm.backbone.memory_layers[0]
    first, second = np.array([[1, 2, 3]]), np.array([[4, 5, 6]])
    outputs, kept = {}, {}
    for limit in (None, 0, 2):
        lm.reset_memory()
        memory.reading_limit = limit
        lm(first, training=True)
        outputs[limit] = to_numpy(lm(second, training=True))
        kept[limit] = to_numpy(memory.train_states.value)
    memory.reading_limit = None
    lm.reset_memory()
    without = to_numpy(lm(second, training=True))
    assert_close(outputs[0], without, REORDERED, "no memory read")
    assert np.abs(outputs[2] - outputs[None]).max() > 1e-3
    assert_close(kept[0], kept[None], 0, "memory kept")


# On JAX every change of what trains is compiled anew.
@pytest.mark.backend("tensorflow", "torch")
def test_rates_frozen_blocks_and_memory_are_resumed(make_lm, tmp_path):
    lm = make_lm(num_layers=1, batch_size=2, dropout=0.2)
    factors = layerwise_decay(lm, 0.5)
    optimizer = make_optimizer("adam", 0.01, rate_factors=factors)
    lm.compile(optimizer, run_eagerly=True)
    lm.optimizer.build(lm.trainable_variables)
    start = snapshot(lm)

    def run(folder, *others):
        put(lm, start)
        lm.fit(
            make_stream(),
            epochs=2,
            verbose=0,
            callbacks=[
                GradualUnfreezing(),
                WidenMemory([0, 3]),
                *others,
                ResumeTraining(tmp_path / folder),
            ],
        )
        return snapshot(lm)

    expected = run("whole")
    run("parts", StopAt(10, stop))  # within the second epoch
    assert_same_run(run("parts"), expected)


@pytest.mark.backend("tensorflow")
def test_an_optimizer_without_factors_is_refused(make_lm, stream):
    lm = make_lm()
    with pytest.raises(ValueError, match="rate_factors="):
        lm.fit(stream, callbacks=[GradualUnfreezing()], verbose=0)
    with pytest.raises(ValueError, match="`lengths` must hold"):
        WidenMemory([])
