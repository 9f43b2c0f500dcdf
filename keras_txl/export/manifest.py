"""`manifest.json`: what an exported file is, for programs and people.

A consumer finds here the names, shapes and dtypes of inputs and outputs, the
sizes of the model, its tokenizer, how to sample, the versions that wrote it,
a hash of the weights, and the error that was measured.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from keras_txl import __version__
from keras_txl.whole_files import write_whole

MANIFEST_NAME = "manifest.json"
FORMAT = 1
PACKAGES = ("keras", "keras-hub", "numpy", "tensorflow")
SIZES = """
vocabulary_size num_layers num_heads head_dim hidden_dim intermediate_dim
position
""".split()


def describe_model(lm: Any, memory_length: int) -> dict[str, Any]:
    """What a manifest says of the model, whatever the target.

    Args:
        lm: a `TransformerXLCausalLM`.
        memory_length: int M of the exported file.

    Returns:
        Dict with `model`, `weights`, `tokenizer`, `sampling` and `versions`.
    """
    import keras

    from keras_txl.generation.memory_file import fingerprint

    backbone = lm.backbone
    tokenizer = getattr(lm.preprocessor, "tokenizer", None)
    stops = [getattr(tokenizer, "end_token_id", None)]
    return {
        "model": {
            **{name: getattr(backbone, name) for name in SIZES},
            "memory_length": memory_length,
            "attend_empty_memory": backbone.attend_empty_memory,
            "dtype": backbone.dtype_policy.name,
            "logits": "logits"
            if backbone.cutoffs is None
            else "log-probabilities",
        },
        "weights": fingerprint(lm),
        "tokenizer": None
        if tokenizer is None
        else {
            "class": keras.saving.get_registered_name(type(tokenizer)),
            "vocabulary_size": int(tokenizer.vocabulary_size()),
        },
        "sampling": {
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "seed": 0,
            "stop_token_ids": [int(stop) for stop in stops if stop is not None],
        },
        "versions": {
            "keras_txl": __version__,
            "backend": keras.backend.backend(),
            **{name: metadata.version(name) for name in PACKAGES},
        },
    }


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write `manifest.json`, with the sizes and hashes of all other files.

    Args:
        folder: holds the exported files, all of them written.
        manifest: what JSON can hold; `target`, `signatures` and `check` are
            the exporter's, the rest is from `describe_model`.
    """
    told = {"format": FORMAT, **manifest, "files": _describe_files(folder)}
    write_whole(folder / MANIFEST_NAME, json.dumps(told, indent=2) + "\n")


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the manifest of an exported model.

    Args:
        folder: holds `manifest.json`.

    Returns:
        The manifest.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it cannot be read, or is of another format.
    """
    path = Path(folder) / MANIFEST_NAME
    if not path.is_file():
        raise FileNotFoundError(
            f"An exported model must have a {MANIFEST_NAME}. Received: "
            f"{str(folder)!r}. Pass the folder that an exporter wrote."
        )
    try:
        manifest = json.loads(path.read_text("utf-8"))
        form = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"The manifest is damaged. Received: {str(path)!r} ({error}). "
            "Export the model again."
        ) from error
    if form != FORMAT:
        raise ValueError(
            f"The manifest must be of format {FORMAT}. Received: format "
            f"{form} in {str(path)!r}. Use the version of keras_txl that "
            "wrote it, or export the model again."
        )
    return dict(manifest)


def verify_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a manifest and see that its files are whole.

    Args:
        folder: holds `manifest.json` and the files.

    Returns:
        The manifest.

    Raises:
        FileNotFoundError: if there is no manifest.
        ValueError: if a file is missing or not the one that was written.
    """
    manifest = read_manifest(folder)
    found = _describe_files(Path(folder))
    for name, wanted in manifest["files"].items():
        if found.get(name) != wanted:
            state = "is another file" if name in found else "is missing"
            raise ValueError(
                "An exported model must be as it was written. Received: "
                f"{str(folder)!r}, where {name} {state}. Copy the whole "
                "folder again, or export the model again."
            )
    return manifest


def _describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / MANIFEST_NAME:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            files[path.relative_to(folder).as_posix()] = {
                "bytes": path.stat().st_size,
                "sha256": digest,
            }
    return files
