"""Search for a size and a learning rate with KerasTuner.

    pip install keras-tuner
    python examples/tune.py

Nothing special is needed: the function below builds and compiles a model, the
tuner trains it with plain `fit` over a stream. Each trial reads the sources of
a few modules of the standard library for a minute at most. The expected
output ends in the best values, such as

    best: {'hidden_dim': 64, 'learning_rate': 0.004}

About a minute on two CPU cores (JAX, other work running).
"""

import argparse
import tempfile
from typing import Any

import keras

import keras_txl


def build_model(choice: Any) -> keras_txl.models.TransformerXLCausalLM:
    """A model of the values that the tuner chose."""
    width = choice.Choice("hidden_dim", [32, 64])
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=1,
        num_heads=4,
        hidden_dim=width,
        intermediate_dim=4 * width,
        memory_length=32,
        batch_size=8,
        dropout=0.0,
    )
    lm = keras_txl.models.TransformerXLCausalLM(backbone)
    rate = choice.Choice("learning_rate", [1e-3, 4e-3])
    lm.compile(optimizer=keras.optimizers.Adam(rate, global_clipnorm=0.25))
    return lm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=150, help="a trial")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--validation-steps", type=int, default=20)
    arguments = parser.parse_args()
    try:
        import keras_tuner
    except ImportError:
        raise SystemExit(
            "The search needs KerasTuner. Install it with: "
            "pip install keras-tuner"
        ) from None
    corpus = keras_txl.data.load_corpus("stdlib")
    train, valid = (
        keras_txl.data.SegmentStream(
            [document.byte_ids for document in documents], 8, segment_length=32
        )
        for documents in (corpus.train[:20], corpus.validation[:1])
    )
    with tempfile.TemporaryDirectory() as folder:
        tuner = keras_tuner.GridSearch(
            build_model,
            objective=keras_tuner.Objective("val_loss", "min"),
            max_trials=arguments.trials,
            directory=folder,
        )
        tuner.search(
            train.repeat(),
            steps_per_epoch=arguments.steps,
            validation_data=valid,
            validation_steps=arguments.validation_steps,
            verbose=0,
        )
        print("best:", tuner.get_best_hyperparameters()[0].values)


if __name__ == "__main__":
    main()
