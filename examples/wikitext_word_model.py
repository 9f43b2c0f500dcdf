"""A word model with adaptive softmax on WikiText-2, by the command line alone.

    python examples/wikitext_word_model.py
    python examples/wikitext_word_model.py --train wiki.valid.tokens \\
        --test wiki.test.tokens --minutes 1.5

Without paths it downloads WikiText-2 and takes its validation text, 217,646
words with one `<eos>` a line, to train on: enough to see everything work, far
too little for a good model. It makes a vocabulary, trains, evaluates on the
test text and continues a sentence; each command is shown as a user would type
it.

Expected output with --steps 400, without the tables around it (TensorFlow; a
minute on two idle CPU cores, and --minutes trains on for a better model):

    tokens: 13,777
    validation loss: perplexity 1,022.65
    memory 0: perplexity 574.5, memory 64: 574.6, memory 256: 574.6
    The ship ...

So short a training learns which words are frequent, and nothing yet that
memory could help with.

The perplexity on the test text counts a word outside of the 13,777 as `<unk>`,
as published figures do with their own, larger vocabularies.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import keras_txl

SIZES = (
    "--segment-length 64 --memory-length 64 --batch-size 16 "
    "--num-layers 2 --hidden-dim 128 --intermediate-dim 256 --dropout 0.2"
)


def keras_txl_command(words: str) -> None:
    """Show a command and run it."""
    print(f"$ keras-txl {words}", flush=True)
    command = [sys.executable, "-m", "keras_txl.cli.main", *shlex.split(words)]
    subprocess.run(command, check=True)


def write_wikitext(folder: Path) -> tuple[Path, Path]:
    """Download WikiText-2; its validation and test text as files."""
    corpus = keras_txl.data.load_corpus("wikitext-2")
    paths = folder / "wiki.valid.tokens", folder / "wiki.test.tokens"
    for path, part in zip(paths, (corpus.validation, corpus.test), strict=True):
        path.write_bytes(part[0].data)
    return paths


def main() -> None:
    """Run the five commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--train", type=Path, help="text to train on")
    parser.add_argument("--test", type=Path, help="text to evaluate on")
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--steps", type=int, help="instead of --minutes")
    parser.add_argument("--output", type=Path, help="folder to keep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        train, test = options.train, options.test
        if train is None or test is None:
            train, test = write_wikitext(folder)
        words, model = folder / "words", folder / "model"
        length = f"--minutes {options.minutes}"
        if options.steps is not None:
            length = f"--steps {options.steps}"
        keras_txl_command(
            f"tokenizer train --kind word --corpus {train} --output {words}"
        )
        keras_txl_command(
            f"train {train} --tokenizer {words} --cutoffs 1000,5000 "
            f"--div-val 2 {SIZES} {length} --output {model}"
        )
        keras_txl_command(
            f"evaluate {model} {test} --memory-length 0 --memory-length 64 "
            "--memory-length 256"
        )
        keras_txl_command(f'score {model} "The ship sailed" "sailed ship The"')
        keras_txl_command(
            f'generate {model} --prompt "The ship" --max-new-tokens 30 '
            "--top-k 40"
        )


if __name__ == "__main__":
    main()
