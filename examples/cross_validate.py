"""Cross-validate a classifier with scikit-learn.

    pip install scikit-learn
    python examples/cross_validate.py

`keras.wrappers.SKLearnClassifier` makes an estimator of a function that builds
and compiles a classifier; scikit-learn does the rest. It knows rectangles of
numbers alone: documents are 256 bytes each here, from modules of four packages
of the standard library, and a module is never in training and test at once.
The wrapper turns labels into one-hot rows, so the loss is the categorical one.
Expected output, but for the last digits and a bar of progress a fold:

    always the same answer: 0.250
    fold 0: 0.662
    fold 1: 0.693
    fold 2: 0.652
    mean of 3 folds: 0.669
"""

import argparse
import sysconfig
from pathlib import Path
from typing import Any

import keras
import numpy as np

import keras_txl

PACKAGES = ("asyncio", "email", "encodings", "tkinter")
LENGTH = 256


def load_documents(per_class: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes of documents, labels, and which module each comes from."""
    rows, labels, modules = [], [], []
    for label, package in enumerate(PACKAGES):
        folder = Path(sysconfig.get_path("stdlib")) / package
        pieces = [
            (data[begin : begin + LENGTH], f"{package}/{path.name}")
            for path in sorted(folder.glob("*.py"))
            for data in [path.read_bytes()]
            for begin in range(0, len(data) - LENGTH + 1, LENGTH)
        ]
        chosen = np.random.default_rng(label).permutation(len(pieces))
        for index in chosen[:per_class]:
            rows.append(np.frombuffer(pieces[index][0], "uint8"))
            labels.append(label)
            modules.append(pieces[index][1])
    return np.stack(rows).astype("int32"), np.array(labels), np.array(modules)


def build_classifier(
    X: Any, y: Any, learning_rate: float = 3e-3
) -> keras_txl.models.TransformerXLTextClassifier:
    """What `SKLearnClassifier` calls with the data of a fold."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=1,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=64,
        memory_length=64,
        dropout=0.0,
    )
    classifier = keras_txl.models.TransformerXLTextClassifier(
        backbone, len(PACKAGES), segment_length=64, pooling="mean"
    )
    classifier.compile(
        keras.optimizers.Adam(learning_rate),
        keras.losses.CategoricalCrossentropy(from_logits=True),
    )
    return classifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--per-class", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--folds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        from sklearn.model_selection import StratifiedGroupKFold
        from sklearn.model_selection import cross_val_score
    except ImportError:
        raise SystemExit(
            "Cross-validation needs scikit-learn. Install it with: "
            "pip install scikit-learn"
        ) from None
    keras.utils.set_random_seed(0)
    documents, labels, modules = load_documents(arguments.per_class)
    guess = np.bincount(labels).max() / len(labels)
    print(f"always the same answer: {guess:.3f}")
    estimator = keras.wrappers.SKLearnClassifier(
        build_classifier, model_kwargs={"learning_rate": 3e-3}
    )
    scores = cross_val_score(
        estimator,
        documents,
        labels,
        groups=modules,
        cv=StratifiedGroupKFold(arguments.folds, shuffle=True, random_state=0),
        params={"epochs": arguments.epochs, "verbose": 0},
        error_score="raise",
    )
    for fold, score in enumerate(scores):
        print(f"fold {fold}: {score:.3f}")
    print(f"mean of {len(scores)} folds: {scores.mean():.3f}")


if __name__ == "__main__":
    main()
