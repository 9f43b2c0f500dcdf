"""Symbolic music in which a refrain comes back after other music.

    python examples/music_rondo.py
    python examples/music_rondo.py --steps 2000 --midi piece.mid

A rondo has the form A B A C A D A: the refrain A returns unchanged between
episodes that are new. Each piece is made here, with a refrain of its own, as
a stream of tokens: a note with its length (`E4/2`), 32 a section. When the
refrain returns, it lies two sections back, twice as far as a segment reaches.

Expected output (TensorFlow; 35 seconds of one CPU core; the last digits depend
on the backend):

    memory  0: 2.912 nats a note where the refrain returns, 2.899 in episodes
    memory 64: 0.227 nats a note where the refrain returns, 2.914 in episodes
    B4/2 C5/4 D5/2 E5/2 C5/2 E5/4 G5/1 ...
"""

import argparse

import keras
import numpy as np

import keras_txl

SECTION = 32
SEGMENT_LENGTH = 32
MEMORY_LENGTH = 64
BATCH_SIZE = 16
FORM = "ABACADAEA"
SCALE = [f"{name}{octave}" for octave in (4, 5) for name in "CDEFGAB"]
LENGTHS = (1, 2, 4)
NOTES = [f"{pitch}/{length}" for pitch in SCALE for length in LENGTHS]


def make_section(rng: np.random.Generator) -> np.ndarray:
    """A tune that walks up and down the scale in small steps."""
    pitch = int(rng.integers(len(SCALE)))
    tokens = []
    for _ in range(SECTION):
        pitch = int(np.clip(pitch + rng.integers(-2, 3), 0, len(SCALE) - 1))
        tokens.append(len(LENGTHS) * pitch + int(rng.integers(len(LENGTHS))))
    return np.array(tokens)


def make_piece(rng: np.random.Generator) -> np.ndarray:
    """A rondo: int64 ids of its notes."""
    sections = {letter: make_section(rng) for letter in sorted(set(FORM))}
    return np.concatenate([sections[letter] for letter in FORM])


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pieces", type=int, default=400, help="to train on")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def build_language_model(steps: int) -> keras_txl.models.TransformerXLCausalLM:
    """A causal model with its optimizer."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=len(NOTES),
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        memory_length=MEMORY_LENGTH,
        batch_size=BATCH_SIZE,
        dropout=0.0,
    )
    lm = keras_txl.models.TransformerXLCausalLM(backbone)
    schedule = keras_txl.training.warmup_cosine_decay(
        3e-3, total_steps=steps, warmup_steps=steps // 20
    )
    lm.compile(
        optimizer=keras_txl.training.make_optimizer(
            "adam", schedule, global_clipnorm=1.0
        )
    )
    return lm


def main() -> None:
    """Make pieces, train, and measure refrains and episodes."""
    options = parse_arguments()
    keras.utils.set_random_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    train = [make_piece(rng) for _ in range(options.pieces)]
    test = [make_piece(rng) for _ in range(32)]

    lm = build_language_model(options.steps)
    stream = keras_txl.data.SegmentStream(train, BATCH_SIZE, SEGMENT_LENGTH)
    lm.fit(
        stream.repeat(),
        steps_per_epoch=max(1, options.steps // 5),
        epochs=5,
        verbose=2,
    )

    letters = np.repeat(list(FORM), SECTION)[1:]
    first = np.arange(len(letters)) < SECTION  # nothing to come back to yet
    for memory_length in (0, MEMORY_LENGTH):
        nats = np.mean(
            keras_txl.evaluation.token_losses(
                lm,
                test,
                segment_length=SEGMENT_LENGTH,
                batch_size=BATCH_SIZE,
                memory_length=memory_length,
            ),
            axis=0,
        )
        refrain = nats[(letters == "A") & ~first].mean()
        episode = nats[letters != "A"].mean()
        print(
            f"memory {memory_length:>2}: {refrain:.3f} nats a note where the "
            f"refrain returns, {episode:.3f} in episodes"
        )
    print("".join(f"{NOTES[token]} " for token in test[0][:SECTION]))


if __name__ == "__main__":
    main()
