"""Tokenizers on disk: the part of a preset that a tokenizer needs."""

import json
import os
from pathlib import Path
from typing import Any

import keras

TOKENIZER_FILE = "tokenizer.json"
ASSETS = Path("assets", "tokenizer")
MODEL_FOLDER = "model"


def find_tokenizer(path: str | os.PathLike[str]) -> Path:
    """The folder with the tokenizer that a path means.

    Args:
        path: a folder that `tokenizer.save_to_preset` or `keras-txl tokenizer
            train` wrote, a preset folder of a model, or the output of
            `keras-txl train`.

    Returns:
        The folder that holds `tokenizer.json`.

    Raises:
        FileNotFoundError: if there is none.
    """
    for folder in (Path(path), Path(path, MODEL_FOLDER)):
        if (folder / TOKENIZER_FILE).is_file():
            return folder
    raise FileNotFoundError(
        f"A tokenizer folder must hold a {TOKENIZER_FILE}. Received: "
        f"{str(path)!r}, which has none. Make one with: keras-txl tokenizer "
        "train --kind word --corpus TEXT --output FOLDER"
    )


def load_tokenizer(path: str | os.PathLike[str]) -> Any:
    """Load a tokenizer from a folder.

    A preset of a model will do, but is not needed.

    Args:
        path: as `find_tokenizer` takes it.

    Returns:
        A tokenizer of the class that the folder names.

    Raises:
        FileNotFoundError: if there is no tokenizer.
        ValueError: if its files are damaged.

    Example:
    ```python
    tokenizer = train_tokenizer("word", ["the ship and the wind\\n"])
    tokenizer.save_to_preset("my_words")
    tokenizer = load_tokenizer("my_words")
    ```
    """
    folder = find_tokenizer(path)
    try:
        text = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
        tokenizer = keras.saving.deserialize_keras_object(json.loads(text))
        tokenizer.load_assets(str(folder / ASSETS))
    except Exception as error:  # whatever damaged files make others raise
        raise ValueError(
            "The files of the tokenizer must be whole. Received: "
            f"{str(folder)!r} ({type(error).__name__}: {error}). Make it "
            "anew, or copy the folder anew."
        ) from error
    return tokenizer
