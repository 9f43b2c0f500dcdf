"""Train a byte-level Transformer-XL on your own text.

    python examples/train_on_your_text.py
    python examples/train_on_your_text.py --text my_texts/ --steps 5000

Without `--text` it reads one megabyte of the Python standard library's own
sources. It trains with plain `fit` over a stream whose memory is carried from
segment to segment, measures text that the model has not seen, with and
without memory, and writes a sample. `KERAS_BACKEND` chooses tensorflow, jax
or torch.

Expected output, after the five lines of `fit` (the figures depend on the text
and a little on the backend):

    memory   0: 3.148 bits per byte
    memory  64: 3.038 bits per byte
    memory 128: 3.036 bits per byte
    def ...

Under two minutes on two CPU cores (TensorFlow, AMD EPYC, other work running).
"""

import argparse

import keras

import keras_txl

SEGMENT_LENGTH = 64
MEMORY_LENGTH = 64
BATCH_SIZE = 16


def stream_of(
    documents: tuple[keras_txl.data.Document, ...],
) -> keras_txl.data.SegmentStream:
    """Read documents as BATCH_SIZE streams of consecutive segments."""
    return keras_txl.data.SegmentStream(
        [document.byte_ids for document in documents],
        batch_size=BATCH_SIZE,
        segment_length=SEGMENT_LENGTH,
    )


def build_language_model(steps: int) -> keras_txl.models.TransformerXLCausalLM:
    """A small model over bytes that generates text."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=3,
        num_heads=4,
        hidden_dim=96,
        intermediate_dim=384,
        memory_length=MEMORY_LENGTH,
        batch_size=BATCH_SIZE,
        dropout=0.0,
    )
    tokenizer = keras_txl.tokenizers.TransformerXLByteTokenizer()
    lm = keras_txl.models.TransformerXLCausalLM(
        backbone,
        keras_txl.models.TransformerXLCausalLMPreprocessor(tokenizer),
    )
    lm.compile(
        optimizer=keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(
                initial_learning_rate=1e-4,
                decay_steps=steps,
                warmup_target=3e-3,
                warmup_steps=max(1, steps // 20),
            ),
            global_clipnorm=1.0,
        ),
        weighted_metrics=[keras_txl.metrics.BitsPerCharacter(name="bits")],
        sampler="top_k",
    )
    return lm


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description="Train a byte-level Transformer-XL on your own text."
    )
    parser.add_argument(
        "--text",
        default="stdlib",
        help="a file, a folder or a glob (default: Python's own sources)",
    )
    parser.add_argument(
        "--steps", type=int, default=600, help="segments to train on"
    )
    parser.add_argument(
        "--max-bytes",
        type=int,
        default=1_000_000,
        help="read no more of the text than this",
    )
    parser.add_argument("--save", help="folder to save the model in")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()

    keras.utils.set_random_seed(0)
    corpus = keras_txl.data.load_corpus(
        arguments.text, max_bytes=arguments.max_bytes
    )
    print(f"bytes: {corpus.sizes}")
    lm = build_language_model(arguments.steps)
    epochs = 5
    lm.fit(
        # A stream without an end: memory goes on from epoch to epoch.
        stream_of(corpus.train).repeat(),
        steps_per_epoch=max(1, arguments.steps // epochs),
        epochs=epochs,
        validation_data=stream_of(corpus.validation),
        verbose=2,
    )

    for memory_length in (0, MEMORY_LENGTH, 2 * MEMORY_LENGTH):
        result = keras_txl.evaluation.evaluate_stream(
            lm,
            [document.byte_ids for document in corpus.test],
            segment_length=SEGMENT_LENGTH,
            batch_size=BATCH_SIZE,
            memory_length=memory_length,
        )
        print(
            f"memory {memory_length:>3}: "
            f"{result.bits_per_byte:.3f} bits per byte"
        )
    print(lm.generate("def ", max_length=120))
    if arguments.save:
        lm.save_to_preset(arguments.save)


if __name__ == "__main__":
    main()
