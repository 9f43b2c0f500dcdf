"""One training run, on one device or several, for comparison.

    python -m tests.integration.device_runs KIND OUTPUT.npz PROCESS PORT PORT

The kinds are the names in `RUNS`. Devices must be set up before a backend
starts, so each of them needs a process of its own, or two.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_txl.data import SegmentStream
from keras_txl.layers.bank_placement import read_whole
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from keras_txl.training.model_state import as_arrays
from keras_txl.training.model_state import assign
from keras_txl.training.model_state import from_arrays
from tests.oracles.weights import randomize

BACKEND = keras.backend.backend()
BATCH_SIZE = 4
SEGMENT_LENGTH = 5
NUM_DOCUMENTS = 4


def make_lm(**overrides: Any) -> Any:
    arguments = {
        "vocabulary_size": 17,
        "num_layers": 1,
        "num_heads": 2,
        "hidden_dim": 8,
        "intermediate_dim": 16,
        "memory_length": 6,
        "batch_size": BATCH_SIZE,
        "dropout": 0.0,
        "head_diversity": 0.2,
    }
    lm = TransformerXLCausalLM(
        TransformerXLBackbone(**{**arguments, **overrides})
    )
    randomize(lm, seed=1)
    # Clipping that bites: the norm is that of the whole batch.
    lm.compile(keras.optimizers.SGD(0.5, global_clipnorm=0.25))
    return lm


def stream(batch_size: int = BATCH_SIZE) -> Any:
    """Documents that end anywhere, and padding in the last row alone."""
    rng = np.random.default_rng(2)
    documents = [rng.integers(0, 17, size) for size in (30, 29, 7, 38)]
    return SegmentStream(documents, batch_size, SEGMENT_LENGTH)


def train(lm: Any, as_dataset: bool = False) -> dict[str, np.ndarray]:
    """All that a run tells: losses, evaluation, memory and weights."""
    losses = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: losses.append(float(logs["loss"]))
    )

    def data(batch_size: int) -> Any:
        segments = stream(batch_size)
        return segments.to_tf_dataset() if as_dataset else segments

    history = lm.fit(
        data(BATCH_SIZE),
        epochs=2,
        validation_data=data(2 * BATCH_SIZE),  # banks of another size
        callbacks=[watch],
        verbose=0,
    )
    found = {"losses": losses, **history.history}
    found["evaluation"] = lm.evaluate(data(BATCH_SIZE), verbose=0)
    found.update(memory_of(lm, "trained"))
    state = as_arrays(lm.variables, "state")
    lm.reset_memory("train", rows=[1, 2])
    found.update(memory_of(lm, "reset"))
    assign(lm.variables, from_arrays(state, "state"))
    found.update(memory_of(lm, "restored"))
    for variable in lm.trainable_variables:
        found[f"weight {variable.path}"] = to_array(variable.value)
    return {name: np.asarray(value) for name, value in found.items()}


def predict(lm: Any) -> dict[str, np.ndarray]:
    ids = np.arange(2 * BATCH_SIZE * SEGMENT_LENGTH) % 17
    outputs = lm.predict(ids.reshape(-1, SEGMENT_LENGTH), verbose=0)
    return {"prediction": outputs}


def memory_of(lm: Any, when: str) -> dict[str, np.ndarray]:
    found = {}
    for memory in lm.segment_memories:
        for training in (True, False):
            for variable in memory.bank(training):
                value = to_array(read_whole(variable))
                if variable.name.endswith("document"):
                    # Readers ahead of the model begin passes that count.
                    value = np.where(value < 0, value, value % NUM_DOCUMENTS)
                found[f"{when} {memory.name}/{variable.name}"] = value
    return found


def to_array(value: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(value)


def message_of(function: Callable[[], Any]) -> np.ndarray:
    """What a wrong use is told; empty if nothing."""
    try:
        function()
    except Exception as error:
        return np.asarray(f"{type(error).__name__}: {error}")
    return np.asarray("")


def two_devices(*_: int) -> dict[str, np.ndarray]:
    if BACKEND == "tensorflow":
        return mirrored()
    return {**data_parallel(), **model_parallel()}


def mirrored() -> dict[str, np.ndarray]:
    """`tf.distribute.MirroredStrategy`."""
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    outside = make_lm()
    with strategy.scope():
        lm = make_lm()
        odd = message_of(lambda: make_lm(batch_size=3))
    result = {**train(lm), **predict(lm)}
    result["shard of train_states"] = np.asarray(
        lm.segment_memories[0].train_states.shape
    )
    segments = stream()
    inputs, targets, _ = segments[0]
    half = (BATCH_SIZE // 2, SEGMENT_LENGTH)
    short = tf.data.Dataset.from_generator(
        lambda: [(inputs["token_ids"][:2], targets[:2])],
        output_signature=(tf.TensorSpec((None, half[1]), tf.int32),) * 2,
    )
    with strategy.scope():
        result["built outside"] = message_of(
            lambda: outside.fit(segments, verbose=0)
        )
    result["odd rows"] = odd
    result["short arrays"] = message_of(
        lambda: lm.fit(np.tile(inputs["token_ids"], (2, 1))[:6], None)
    )
    result["short batch"] = message_of(lambda: lm.fit(short, verbose=0))
    result["compiled outside"] = message_of(lm.compile)
    with strategy.scope():
        result["called outside"] = message_of(lambda: lm(inputs))
        result["steps at once"] = message_of(
            lambda: lm.compile(steps_per_execution=2)
        )
    return result


def data_parallel() -> dict[str, np.ndarray]:
    """`keras.distribution.DataParallel`."""
    devices = keras.distribution.list_devices()[:2]
    with keras.distribution.DataParallel(devices=devices).scope():
        lm = make_lm()
        result = {**train(lm), **predict(lm), **shards_of(lm)}
        inputs, targets, _ = stream()[0]
        ids = inputs["token_ids"]
        result["odd rows"] = message_of(lambda: make_lm(batch_size=3))
        result["short arrays"] = message_of(
            lambda: lm.fit(np.tile(ids, (2, 1))[:6], None)
        )
        result["short batch"] = message_of(
            lambda: lm.train_on_batch(ids[:2], targets[:2])
        )
    return result


def model_parallel() -> dict[str, np.ndarray]:
    """`keras.distribution.ModelParallel`: two batch shards, two of weights."""
    mesh = keras.distribution.DeviceMesh((2, 2), ("batch", "model"))
    layout = TransformerXLBackbone.get_layout_map(mesh)
    parallel = keras.distribution.ModelParallel(layout_map=layout)
    with parallel.scope():
        lm = make_lm()
        result = {**train(lm), **predict(lm), **shards_of(lm)}
    return {f"model parallel {name}": v for name, v in result.items()}


def shards_of(lm: Any) -> dict[str, np.ndarray]:
    """Shapes of what one device holds on JAX."""
    first = lm.backbone.transformer_layers[0]
    return {
        f"shard of {variable.name}": np.asarray(
            variable.value.addressable_shards[0].data.shape
        )
        for variable in (
            *lm.segment_memories[0].bank(True),
            *lm.segment_memories[0].bank(False),
            first.attention.output_projection.kernel,
        )
    }


def two_processes(process: int, *ports: int) -> dict[str, np.ndarray]:
    if BACKEND == "tensorflow":
        return multi_worker(process, *ports)
    return jax_processes(process, ports[0])


def jax_processes(process: int, port: int) -> dict[str, np.ndarray]:
    """`keras.distribution.initialize`, each process with one device."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    keras.distribution.initialize(f"127.0.0.1:{port}", 2, process)
    with keras.distribution.DataParallel().scope():
        lm = make_lm()
        result = {**train(lm, as_dataset=True), **shards_of(lm)}
        result["whole batches"] = message_of(
            lambda: lm.fit(stream(), verbose=0)
        )
    return result


def multi_worker(process: int, *ports: int) -> dict[str, np.ndarray]:
    """`tf.distribute.MultiWorkerMirroredStrategy`."""
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]},
            "task": {"type": "worker", "index": process},
        }
    )
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        lm = make_lm()
    return {**train(lm), **predict(lm)}


RUNS = {"two_devices": two_devices, "two_processes": two_processes}

if __name__ == "__main__":
    kind, output, *numbers = sys.argv[1:]
    np.savez(output, **RUNS[kind](*map(int, numbers)))
