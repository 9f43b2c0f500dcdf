"""Write a model folder as a SavedModel and read a stream with it.

    python export/to_saved_model.py my_model served/my_model
    python export/to_saved_model.py my_model served/my_model --memory-length 512

The first argument is a preset folder, as `keras-txl train` and
`lm.save_to_preset` write it; the second becomes a folder of versions for
TensorFlow Serving. What is written is then loaded with TensorFlow alone, and a
text is scored in two segments whose memory goes from one call to the next.

Expected output (the loss depends on the model):

    wrote served/my_model/1
    generate, generate_text, initial_memory, score, step
    1 token(s) read by row 0: 5.5413 nats a token
    4 token(s) read by row 0: 5.5470 nats a token

About half a minute on two CPU cores for a small model.
"""

import argparse

import numpy as np
import tensorflow as tf

import keras_txl

SEGMENTS = ([1], [2, 3, 4])


def main() -> None:
    """Export, load, read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="preset folder")
    parser.add_argument("output", help="folder of the versions")
    parser.add_argument("--memory-length", type=int, help="tokens")
    options = parser.parse_args()

    lm = keras_txl.models.TransformerXLCausalLM.from_preset(options.model)
    folder = keras_txl.export.export_saved_model(
        lm, options.output, memory_length=options.memory_length
    )
    print(f"wrote {folder}")

    signatures = tf.saved_model.load(str(folder)).signatures
    names = [name for name in signatures if name != "serving_default"]
    print(", ".join(sorted(names)))
    memory = signatures["initial_memory"](rows=tf.constant([1]))
    read = 0
    for segment in SEGMENTS:
        outputs = signatures["score"](
            token_ids=tf.constant([segment]),
            token_length=tf.constant([len(segment)]),
            targets=tf.constant([np.roll(segment, -1)], tf.int32),
            **memory,
        )
        memory = {name: outputs[f"new_{name}"] for name in memory}
        read += len(segment)
        mean = float(tf.reduce_mean(outputs["token_losses"]))
        print(f"{read} token(s) read by row 0: {mean:.4f} nats a token")


if __name__ == "__main__":
    main()
