"""DNA whose next bases depend on those that lie a repeat back.

    python examples/dna_repeats.py
    python examples/dna_repeats.py --repeat-length 342 --memory-length 128

Much of a genome is satellite DNA: one motif copied again and again, with
mutations. The alpha satellite at human centromeres has 171 bases. Here each
sequence is made from a motif of its own, so nothing can be learned by heart:
who wants to foresee a base must look one motif back, and a segment does not
reach so far. A token is three bases, as DNA models often have it: single ones
are four letters, hard to tell apart by attention.

Expected output (TensorFlow; 35 seconds of one CPU core; the last digits depend
on the backend):

    memory   0: 2.222 bits a base
    memory  32: 1.616 bits a base
    memory  64: 0.175 bits a base
    at best: 0.136, by guessing: 2.000

Without memory this model is worse than guessing: it was trained to look back,
and finds nothing there.
"""

import argparse

import keras
import numpy as np

import keras_txl

SEGMENT_LENGTH = 32
BATCH_SIZE = 16
TOKEN_BASES = 3
COPIES = 8


def make_sequence(
    rng: np.random.Generator, repeat_length: int, mutation_rate: float
) -> np.ndarray:
    """A motif and its copies, each made of the one before.

    Returns:
        int64 array of bases: 0 to 3 are A, C, G and T.
    """
    copies = [rng.integers(0, 4, repeat_length)]
    for _ in range(COPIES - 1):
        mutated = rng.random(repeat_length) < mutation_rate
        drawn = rng.integers(0, 4, repeat_length)
        copies.append(np.where(mutated, drawn, copies[-1]))
    return np.concatenate(copies)


def tokens_of(bases: np.ndarray) -> np.ndarray:
    """Ids 0 to 63, one for three bases."""
    return bases.reshape(-1, TOKEN_BASES) @ [16, 4, 1]


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--repeat-length", type=int, default=171, help="bases, by threes"
    )
    parser.add_argument("--mutation-rate", type=float, default=0.02)
    parser.add_argument("--memory-length", type=int, default=64)
    parser.add_argument("--sequences", type=int, default=400)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def build_language_model(
    steps: int, memory_length: int
) -> keras_txl.models.TransformerXLCausalLM:
    """A causal model with its optimizer."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=4**TOKEN_BASES,
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        memory_length=memory_length,
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
    """Make sequences, train, and measure with and without memory."""
    options = parse_arguments()
    keras.utils.set_random_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    sequences = [
        tokens_of(
            make_sequence(rng, options.repeat_length, options.mutation_rate)
        )
        for _ in range(options.sequences + 32)
    ]
    test, train = sequences[:32], sequences[32:]

    lm = build_language_model(options.steps, options.memory_length)
    stream = keras_txl.data.SegmentStream(train, BATCH_SIZE, SEGMENT_LENGTH)
    lm.fit(
        stream.repeat(),
        steps_per_epoch=max(1, options.steps // 5),
        epochs=5,
        verbose=2,
    )

    # In its first copy nobody can foresee a motif.
    begin = options.repeat_length // TOKEN_BASES
    for memory_length in (0, SEGMENT_LENGTH, options.memory_length):
        nats = keras_txl.evaluation.token_losses(
            lm,
            test,
            segment_length=SEGMENT_LENGTH,
            batch_size=BATCH_SIZE,
            memory_length=memory_length,
        )
        bits = np.array(nats)[:, begin:].mean() / np.log(2) / TOKEN_BASES
        print(f"memory {memory_length:>3}: {bits:.3f} bits a base")
    other = 0.75 * options.mutation_rate  # a mutation may draw the same base
    least = other * np.log2(3 / other) - (1 - other) * np.log2(1 - other)
    print(f"at best: {least:.3f}, by guessing: 2.000")


if __name__ == "__main__":
    main()
