"""Source code in which a name is used thousands of tokens after its definition.

    python examples/source_code.py
    python examples/source_code.py --distance 5000 --memory-length 6000

Each file is one long Python function that calls itself in its last line. The
name that follows this last `return` stands nowhere but in the first line, far
outside of the segment that the model reads:

    def parse_header(a, b):
        while b < a:
            b += 7
        ...                        # thousands of tokens
        return parse_header(b, a)

Files are made here, with a seed, and cut into tokens by Python's own
`tokenize`. Training files are shorter, and half of them have more calls. The
model is trained with a memory of 512 and reads the test files with a longer
one: distances beyond `clamp_length` count alike, so that is no new situation.

Expected output (TensorFlow; 115 seconds of one CPU core):

    tokens from definition to use: 2578 to 2750
    memory    0: 2.946 nats for the name, 1.076 for a token on average
    memory  512: 2.746 nats for the name, 0.806 for a token on average
    memory 4096: 2.407 nats for the name, 0.806 for a token on average
    a name drawn blindly: 2.773 nats

A training this short finds the name in some of the files, and only with a
memory that reaches their first line.
"""

import argparse
import io
import random
import tokenize

import keras
import numpy as np

import keras_txl

SEGMENT_LENGTH = 64
TRAINING_MEMORY = 512
BATCH_SIZE = 16
NAMES = [
    f"{verb}_{noun}"
    for verb in "parse read write find".split()
    for noun in "header table image key".split()
]


def make_source(rng: random.Random, num_tokens: int, calls: float = 0.0) -> str:
    """A function of about so many tokens that calls itself in its last line.

    Before that, each statement is such a call with the probability `calls`.
    """
    name = rng.choice(NAMES)
    lines = [f"def {name}(a, b):"]
    for _ in range(num_tokens // 8):  # a statement has eight on average
        x, y = rng.choices("abcd", k=2)
        number = rng.randrange(10)
        if rng.random() < calls:
            lines.append(f"    {x} = {name}({y}, {number})")
            continue
        lines += rng.choice(
            [
                [f"    {x} = {y} + {number}"],
                [f"    {x} -= {number}"],
                [f"    while {x} < {y}:", f"        {x} += {number}"],
                [f"    if {x} == {y}:", f"        {y} = {number}"],
            ]
        )
    return "\n".join([*lines, f"    return {name}(b, a)\n"])


def tokens_of(source: str) -> list[str]:
    """Words of a source, as Python itself sees them."""
    words = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        word.string.strip() or tokenize.tok_name[word.type] for word in words
    ]


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--distance", type=int, default=2500, help="tokens of a test file"
    )
    parser.add_argument("--memory-length", type=int, default=4096)
    parser.add_argument("--files", type=int, default=2000, help="to train on")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def build_language_model(
    vocabulary_size: int, steps: int
) -> keras_txl.models.TransformerXLCausalLM:
    """A causal model with its optimizer."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=vocabulary_size,
        num_layers=2,
        num_heads=2,
        hidden_dim=64,
        intermediate_dim=128,
        memory_length=TRAINING_MEMORY,
        batch_size=BATCH_SIZE,
        # Beyond this only content counts, so memory may be longer later on.
        clamp_length=SEGMENT_LENGTH,
        normalize_first=True,
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
    """Make files, train, and look at the last use of each name."""
    options = parse_arguments()
    keras.utils.set_random_seed(options.seed)
    rng = random.Random(options.seed)
    train = [
        tokens_of(
            make_source(
                rng,
                int(10 ** rng.uniform(1, 2.9)),
                calls=rng.choice([0.0, 0.4]),
            )
        )
        for _ in range(options.files)
    ]
    test = [tokens_of(make_source(rng, options.distance)) for _ in range(16)]
    words = sorted({word for file in train + test for word in file} | {*NAMES})
    ids = {word: number for number, word in enumerate(words)}

    lm = build_language_model(len(words), options.steps)
    stream = keras_txl.data.SegmentStream(
        [np.array([ids[word] for word in file]) for file in train],
        BATCH_SIZE,
        SEGMENT_LENGTH,
    )
    lm.fit(
        stream.repeat(),
        steps_per_epoch=max(1, options.steps // 5),
        epochs=5,
        verbose=2,
    )

    uses = [file.index("return") + 1 for file in test]
    print(f"tokens from definition to use: {min(uses) - 1} to {max(uses) - 1}")
    for memory_length in (0, TRAINING_MEMORY, options.memory_length):
        nats = keras_txl.evaluation.token_losses(
            lm,
            [np.array([ids[word] for word in file]) for file in test],
            segment_length=SEGMENT_LENGTH,
            batch_size=BATCH_SIZE,
            memory_length=memory_length,
        )
        # The loss of token n stands at n - 1.
        use = np.mean([loss[n - 1] for loss, n in zip(nats, uses, strict=True)])
        rest = np.mean(np.concatenate([loss[2:] for loss in nats]))
        print(
            f"memory {memory_length:>4}: {use:.3f} nats for the name, "
            f"{rest:.3f} for a token on average"
        )
    print(f"a name drawn blindly: {np.log(len(NAMES)):.3f} nats")


if __name__ == "__main__":
    main()
