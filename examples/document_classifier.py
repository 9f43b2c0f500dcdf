"""Tell which package of the standard library a source file belongs to.

    python examples/document_classifier.py
    python examples/document_classifier.py --seeds 0 1 2

Documents are the sources of Python's own packages, as words: up to 2048 of
them, up to one place of a file or another. The packages with most words are
the classes, and whole files are held out for validation and for the test. The
classifier reads a document in segments of 8 words and answers at its last one.
It is trained once with memory and once without, alike in all else.
`KERAS_BACKEND` chooses tensorflow, jax or torch.

Expected output (Python 3.11 on JAX; accuracies depend on the version and a
little on the backend):

    documents: 5886 for train, 1649 for validation, 1720 for test
    always the same answer: 0.218
    seed 0, memory   0: 0.656 (validation 0.631)
    seed 0, memory  64: 0.845 (validation 0.777)
    gain by memory: +0.188, least +0.188

docs/guides/fine_tune.md has more seeds, and the setups that gained less.
"""

import argparse
import random
import re
import sysconfig
from collections import Counter
from pathlib import Path

import keras
import numpy as np

import keras_txl

SEGMENT_LENGTH = 8
DOCUMENT_LENGTH = 2048
LEAST_LENGTH = 256
STRIDE = 64
VOCABULARY_SIZE = 2000
# Of four files of a package in random order. What is tried, memory or length
# or steps, is compared on the validation files; the test files are for once.
PARTS = {"train": (2, 3), "validation": (0,), "test": (1,)}


def documents_of(file: Path) -> list[list[str]]:
    """The words of a file up to one place or another."""
    text = file.read_text(encoding="utf-8", errors="replace")
    words = re.findall(r"[A-Za-z]+|[^\sA-Za-z]", text)
    ends = range(len(words), LEAST_LENGTH - 1, -STRIDE)
    return [words[max(0, end - DOCUMENT_LENGTH) : end] for end in ends]


def ids_of(
    documents: list[list[str]], vocabulary: dict[str, int]
) -> list[np.ndarray]:
    """Ids of words; 0 for those that are not in the vocabulary."""
    return [
        np.array([vocabulary.get(word, 0) for word in document])
        for document in documents
    ]


def load_documents(
    num_classes: int, per_class: int
) -> tuple[list[str], dict[str, tuple[list[list[str]], np.ndarray]]]:
    """Names of the classes, and documents and labels of each of `PARTS`."""
    library = Path(sysconfig.get_path("stdlib"))
    packages = {}
    for folder in sorted(library.iterdir()):
        files = sorted(folder.glob("*.py"))
        if folder.name in ("test", "site-packages") or len(files) < 5:
            continue
        random.Random(0).shuffle(files)
        packages[folder.name] = [documents_of(file) for file in files]
    sizes = {name: sum(map(len, packages[name])) for name in packages}
    names = sorted(packages, key=lambda name: -sizes[name])[:num_classes]
    parts = {}
    for part, places in PARTS.items():
        texts: list[list[str]] = []
        labels: list[int] = []
        for label, name in enumerate(names):
            files_of_part = [
                texts_of_file
                for index, texts_of_file in enumerate(packages[name])
                if index % 4 in places
            ]
            chosen = [text for texts in files_of_part for text in texts]
            random.Random(1).shuffle(chosen)
            chosen = chosen[: per_class if part == "train" else per_class // 4]
            texts += chosen
            labels += [label] * len(chosen)
        parts[part] = texts, np.array(labels)
    return names, parts


def build_classifier(
    num_classes: int, memory_length: int, steps: int
) -> keras_txl.models.TransformerXLTextClassifier:
    """A small classifier of words."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=VOCABULARY_SIZE,
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        memory_length=memory_length,
        dropout=0.1,
    )
    classifier = keras_txl.models.TransformerXLTextClassifier(
        backbone,
        num_classes,
        segment_length=SEGMENT_LENGTH,
    )
    classifier.compile(
        optimizer=keras_txl.training.make_optimizer(
            "adam",
            keras_txl.training.warmup_cosine_decay(
                2e-3, total_steps=steps, warmup_steps=steps // 20
            ),
            global_clipnorm=1.0,
        ),
    )
    return classifier


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description="Which package does a source file belong to?"
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument(
        "--per-class", type=int, default=1500, help="documents to train on"
    )
    parser.add_argument("--memory", type=int, default=64)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()

    names, parts = load_documents(arguments.classes, arguments.per_class)
    counts = Counter(word for text in parts["train"][0] for word in text)
    common = counts.most_common(VOCABULARY_SIZE - 1)
    vocabulary = {word: index + 1 for index, (word, _) in enumerate(common)}
    data = {
        part: (ids_of(words, vocabulary), labels)
        for part, (words, labels) in parts.items()
    }
    print(f"classes: {', '.join(names)}")
    sizes = [f"{len(data[part][0])} for {part}" for part in PARTS]
    print(f"documents: {', '.join(sizes)}")
    labels = data["test"][1]
    print(
        f"always the same answer: {np.bincount(labels).max() / len(labels):.3f}"
    )
    batch_size = 16
    steps_per_epoch = -(-len(data["train"][0]) // batch_size)
    epochs = max(1, round(arguments.steps / steps_per_epoch))
    gains = []
    for seed in arguments.seeds:
        accuracies = []
        for memory_length in (0, arguments.memory):
            keras.utils.set_random_seed(seed)
            classifier = build_classifier(
                len(names), memory_length, epochs * steps_per_epoch
            )
            classifier.fit(
                *data["train"], batch_size=batch_size, epochs=epochs, verbose=0
            )
            validation, test = (
                classifier.evaluate(*data[part], batch_size=64, verbose=0)[1]
                for part in ("validation", "test")
            )
            accuracies.append(test)
            print(
                f"seed {seed}, memory {memory_length:>3}: {test:.3f} "
                f"(validation {validation:.3f})",
                flush=True,
            )
        gains.append(accuracies[1] - accuracies[0])
    print(f"gain by memory: {np.mean(gains):+.3f}, least {min(gains):+.3f}")


if __name__ == "__main__":
    main()
