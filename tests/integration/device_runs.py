"""One training run, on one device or several, for comparison.

    python -m tests.integration.device_runs KIND OUTPUT.npz [PROCESS PORT]

The kinds are the names in `RUNS`. Devices must be set up before a backend
starts, so each run but `train(make_lm())` itself needs a process of its own.
"""

import json
import os
import sys
from typing import Any

import numpy as np

BATCH_SIZE = 4
SEGMENT_LENGTH = 5


def make_lm(**overrides: Any) -> Any:
    import keras

    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from tests.oracles.weights import randomize

    arguments = {
        "vocabulary_size": 17,
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 8,
        "intermediate_dim": 16,
        "memory_length": 6,
        "batch_size": BATCH_SIZE,
        "dropout": 0.0,
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
    from keras_txl.data import SegmentStream

    rng = np.random.default_rng(2)
    documents = [rng.integers(0, 17, size) for size in (30, 29, 7, 38)]
    return SegmentStream(documents, batch_size, SEGMENT_LENGTH)


def train(lm: Any, as_dataset: bool = False) -> dict[str, np.ndarray]:
    """All that a run tells: losses, evaluation, memory and weights."""
    import keras

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
    lm.reset_memory("train", rows=[1, 2])
    found.update(memory_of(lm, "reset"))
    for variable in lm.trainable_variables:
        found[f"weight {variable.path}"] = to_array(variable.value)
    return {name: np.asarray(value) for name, value in found.items()}


def memory_of(lm: Any, when: str) -> dict[str, np.ndarray]:
    from keras_txl.layers.bank_placement import read_bank

    return {
        f"{when} {memory.name}/{variable.name}": to_array(read_bank(variable))
        for memory in lm.segment_memories
        for training in (True, False)
        for variable in memory.bank(training)
    }


def to_array(value: Any) -> np.ndarray:
    import keras

    return keras.ops.convert_to_numpy(value)


def mirrored() -> dict[str, np.ndarray]:
    import tensorflow as tf

    with mirrored_strategy().scope():
        lm = make_lm()
    result = train(lm)
    ids = np.arange(2 * BATCH_SIZE * SEGMENT_LENGTH) % 17
    result["prediction"] = lm.predict(
        ids.reshape(-1, SEGMENT_LENGTH), verbose=0
    )
    return result


def mirrored_strategy() -> Any:
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def jax_processes(process: int, port: int) -> dict[str, np.ndarray]:
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    import keras

    keras.distribution.initialize(f"127.0.0.1:{port}", 2, process)
    with keras.distribution.DataParallel().scope():
        return train(make_lm(), as_dataset=True)


def multi_worker(process: int, port: int) -> dict[str, np.ndarray]:
    workers = [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": process},
        }
    )
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        lm = make_lm()
    return train(lm)


RUNS = {
    "mirrored": mirrored,
    "jax_processes": jax_processes,
    "multi_worker": multi_worker,
}

if __name__ == "__main__":
    kind, output, *arguments = sys.argv[1:]
    np.savez(output, **RUNS[kind](*map(int, arguments)))
