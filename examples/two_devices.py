"""Train on two devices, with the numbers of one.

    python examples/two_devices.py
    KERAS_BACKEND=jax python examples/two_devices.py

The machine needs one CPU: both devices are virtual ones. The rows of a batch
are shared out, and each row's memory lives with it. The same training runs
on one device and on two; losses agree up to rounding. On PyTorch
Keras has no devices to share.

Expected output (TensorFlow; 35 seconds of one CPU core):

    loss, first and last step: 5.3372, 2.5772
    from one device to two a loss changes by 6.1e-04 at most
    memory  0: 3.497 bits per byte
    memory 32: 3.392 bits per byte

The change grows with the steps: sums run in another order, and Adam magnifies
what little that does. Over the first three steps it is below 1e-5.
"""

import argparse
import os
from contextlib import AbstractContextManager
from typing import Any

NUM_DEVICES = 2
# Before a backend starts: it looks for devices once.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + f" --xla_force_host_platform_device_count={NUM_DEVICES}"
)

import keras  # noqa: E402
import numpy as np  # noqa: E402

import keras_txl  # noqa: E402
from keras_txl.models import TransformerXLCausalLM  # noqa: E402

SEGMENT_LENGTH = 32
MEMORY_LENGTH = 32


def two_devices() -> AbstractContextManager[Any]:
    """The scope in which a model is built and compiled for two devices."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * NUM_DEVICES,
        )
        names = [f"CPU:{number}" for number in range(NUM_DEVICES)]
        scope: AbstractContextManager[Any] = tf.distribute.MirroredStrategy(
            names
        ).scope()
        return scope
    if backend == "jax":
        names = keras.distribution.list_devices()[:NUM_DEVICES]
        scope = keras.distribution.DataParallel(devices=names).scope()
        return scope
    raise SystemExit(
        "Keras shares devices on TensorFlow and JAX alone. Received: "
        f"KERAS_BACKEND={backend}. Set it to tensorflow or jax."
    )


def train(
    documents: list[np.ndarray], options: argparse.Namespace
) -> tuple[TransformerXLCausalLM, np.ndarray]:
    """Train from the seed; the model and its loss after each step."""
    keras.utils.set_random_seed(options.seed)
    losses: list[float] = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, logs: losses.append(float(logs["loss"]))
    )
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=2,
        hidden_dim=64,
        intermediate_dim=128,
        memory_length=MEMORY_LENGTH,
        batch_size=options.batch_size,  # of both devices together
        dropout=0.0,
    )
    lm = TransformerXLCausalLM(backbone)
    lm.compile(
        optimizer=keras_txl.training.make_optimizer(
            "adam", 2e-3, global_clipnorm=1.0
        )
    )
    stream = keras_txl.data.SegmentStream(
        documents, options.batch_size, SEGMENT_LENGTH
    )
    lm.fit(
        stream.repeat(),
        steps_per_epoch=options.steps,
        callbacks=[watch],
        verbose=0,
    )
    return lm, np.array(losses)


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Train on one device, on two, and compare."""
    options = parse_arguments()
    both = two_devices()  # before anything runs on a device
    corpus = keras_txl.data.load_corpus("stdlib", max_bytes=400_000)
    documents = [document.byte_ids for document in corpus.train]
    _, expected = train(documents, options)
    with both:
        lm, losses = train(documents, options)
    print(f"loss, first and last step: {losses[0]:.4f}, {losses[-1]:.4f}")
    difference = abs(losses - expected).max()
    print(f"from one device to two a loss changes by {difference:.1e} at most")
    for memory_length in (0, MEMORY_LENGTH):
        result = keras_txl.evaluation.evaluate_stream(
            lm,
            [document.byte_ids for document in corpus.test],
            segment_length=SEGMENT_LENGTH,
            batch_size=options.batch_size,
            memory_length=memory_length,
        )
        bits = result.bits_per_byte
        print(f"memory {memory_length:>2}: {bits:.3f} bits per byte")


if __name__ == "__main__":
    main()
