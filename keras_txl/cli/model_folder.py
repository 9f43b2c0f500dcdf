"""Models on disk, and the texts that verbs read."""

import glob
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_txl.export.staging import staged_folder

# Not imported from the data: help and usage errors must come at once.
NAMED_CORPORA = (
    "stdlib",
    "enwik8",
    "text8",
    "wikitext-103",
    "wikitext-2",
    "ptb",
    "lm1b",
    "pg19",
)
"""What `load_corpus` knows by name."""

MODEL_NAME = "model"
"""Folder of the preset within the output of `train` and `quickstart`."""


def find_model(path: Path) -> Path:
    """The preset folder that a path on the command line means.

    Args:
        path: a preset folder, or the output folder of `train` or
            `quickstart`.

    Returns:
        The preset folder.

    Raises:
        FileNotFoundError: if there is no model.
        ValueError: if there are two.
    """
    found = [
        candidate
        for candidate in (path / MODEL_NAME, path)
        if (candidate / "config.json").is_file()
    ]
    if len(found) == 2:
        raise ValueError(
            "A model folder must hold one model. Received: "
            f"{str(path)!r}, which holds two: one itself and one in "
            f"{MODEL_NAME}/. Pass {str(path / MODEL_NAME)!r}, or move that "
            "folder away to use the other."
        )
    if found:
        return found[0]
    if not path.exists():
        raise FileNotFoundError(
            f"There is no such model folder. Received: {str(path)!r}. Make "
            "one with: keras-txl train TEXT --output FOLDER"
        )
    raise FileNotFoundError(
        "A model folder must hold a config.json. Received: "
        f"{str(path)!r}, which has none. Pass the folder that keras-txl "
        "train wrote; finish a run that was stopped with train --resume."
    )


def load_model(path: Path, memory_length: int | None = None) -> Any:
    """Load a model with its preprocessor.

    Args:
        path: as in `find_model`.
        memory_length: tokens kept in memory instead of what the model says.

    Returns:
        A `TransformerXLCausalLM`.

    Raises:
        FileNotFoundError: if there is no model.
        ValueError: if there are two, it is no language model, or it cannot be
            loaded.
    """
    folder = find_model(path)
    _check_held(folder)
    from keras_txl.models import TransformerXLCausalLM

    arguments: dict[str, Any] = {}
    if memory_length is not None:
        arguments["eval_memory_length"] = memory_length
    try:
        return TransformerXLCausalLM.from_preset(str(folder), **arguments)
    except Exception as error:
        # Whatever a damaged file makes JSON, HDF5 or Keras raise.
        raise ValueError(
            f"The model folder is damaged. Received: {str(folder)!r} "
            f"({_first_line(error)}). Train again, or copy the "
            "folder anew."
        ) from error


def _check_held(folder: Path) -> None:
    """Refuse what KerasHub would put under a new head, or not at all."""
    task = folder / "task.json"
    try:
        held = json.loads(
            (task if task.is_file() else folder / "config.json").read_text(
                "utf-8"
            )
        )
        name = str(held["registered_name"]).rpartition(">")[-1]
        of_vectors = held["config"].get("feature_dim") is not None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return  # damaged: loading says so
    if of_vectors or (task.is_file() and name != "TransformerXLCausalLM"):
        kind = f"a {name}" + (" of vectors" if of_vectors else "")
        raise ValueError(
            "The model must be a language model. Received: "
            f"{str(folder)!r}, which holds {kind}. Load it in Python with "
            f"keras_txl.models.{name}.from_preset."
        )


def memory_length_of(lm: Any) -> int:
    """Tokens that the model remembers unless told otherwise."""
    length = lm.backbone.eval_memory_length
    return int(lm.backbone.memory_length if length is None else length)


def count_parameters(lm: Any) -> int:
    """Numbers that training changes; memory banks are not among them."""
    return sum(math.prod(weight.shape) for weight in lm.trainable_weights)


def _first_line(error: Exception) -> str:
    told = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {told}"


def save_model(lm: Any, folder: Path) -> None:
    """Write a preset folder whole or not at all."""
    with staged_folder(folder) as stage:
        lm.save_to_preset(str(stage))


def check_corpus(source: str) -> None:
    """As `check_texts`, but names of corpora pass."""
    if source not in NAMED_CORPORA:
        check_texts([source])


def check_texts(sources: Sequence[str]) -> None:
    """Say that a text is missing before anything slow begins."""
    for source in sources:
        path = os.path.expanduser(source)
        if not os.path.exists(path) and not glob.glob(path, recursive=True):
            raise FileNotFoundError(
                f"There is no such text. Received: {source!r}. Pass a text "
                "file, a folder of text files or a glob."
            )


def check_encoded(corpus: str, validation: str | None) -> None:
    """Refuse one encoded corpus without the other, before anything slow."""
    encoded = [
        source is not None and Path(source, "header.json").is_file()
        for source in (corpus, validation)
    ]
    if encoded[0] != encoded[1]:
        raise ValueError(
            "The corpus and --validation must both be encoded or both be "
            f"text. Received: {corpus!r} and {validation!r}. Encode the other "
            "with: keras-txl data encode"
        )


def check_tokenizer(path: Path | None) -> None:
    """Say that a tokenizer is missing before anything slow begins."""
    if path is None:
        return
    for folder in (path, path / MODEL_NAME):
        if (folder / "tokenizer.json").is_file():
            return
    raise FileNotFoundError(
        "--tokenizer must be a folder with a tokenizer.json. Received: "
        f"{str(path)!r}. Make one with: keras-txl tokenizer train --kind word "
        "--corpus TEXT --output FOLDER"
    )


def read_documents(sources: Sequence[str]) -> list[bytes]:
    """Read texts, one document a file.

    Args:
        sources: paths of files or folders, or globs.

    Returns:
        The contents of the files, in the given order.
    """
    from keras_txl.data import load_corpus

    documents: list[bytes] = []
    for source in sources:
        corpus = load_corpus(
            source, validation_fraction=0, test_fraction=0, minimum_bytes=1
        )
        documents.extend(document.data for document in corpus.train)
    return documents
