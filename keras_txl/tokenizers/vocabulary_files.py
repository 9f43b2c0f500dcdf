"""Vocabularies of other programs, read without running code from a file."""

import collections
import io
import json
import pickle
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_vocabulary(path: str | Path) -> list[str]:
    """Read the words of a vocabulary in the order of their ids.

    Args:
        path: a file of one of these kinds:

            - `.json`: a list of words, or a dict of ids by word
            - `vocab.pkl`, `vocab.bin`: what Hugging Face's
              `TransfoXLTokenizer` saved with pickle or PyTorch. Only lists,
              dicts, strings and numbers are taken from it; whatever else it
              names is neither imported nor called.
            - any other: text with a word a line, what follows it on the line
              left out, as the released code reads `1b_word_vocab.txt` and
              Hugging Face `vocab.txt`

    Returns:
        List of words. `TransformerXLWordTokenizer` takes it, with the
        `unknown_token` that it holds (`<unk>`, in the One Billion Word
        benchmark `<UNK>`).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it holds no vocabulary.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            "A vocabulary must be a file that exists. Received: "
            f"{str(path)!r}. Pass a .json, .txt, .pkl or .bin file."
        )
    data = path.read_bytes()
    try:
        if path.suffix == ".json":
            words = _from_json(json.loads(data.decode("utf-8")))
        elif path.suffix in (".pkl", ".bin"):
            words = _from_pickles(data)
        else:
            words = _from_lines(data.decode("utf-8"))
    except (ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(
            "The file must hold a vocabulary: words in the order of their "
            f"ids. Received: {str(path)!r} ({type(error).__name__}: {error}). "
            "Write it as text with a word a line."
        ) from error
    if not words:
        raise ValueError(
            "The file must hold a vocabulary. Received: "
            f"{str(path)!r}, which holds no word."
        )
    return words


def _from_json(value: Any) -> list[str]:
    if isinstance(value, dict):
        words = sorted(value, key=lambda word: int(value[word]))
        if [int(value[word]) for word in words] != list(range(len(words))):
            raise ValueError("the ids do not count up from 0")
        return words
    if not isinstance(value, list):
        raise ValueError(f"a {type(value).__name__} instead of a list")
    return [str(word) for word in value]


def _from_lines(text: str) -> list[str]:
    fields = (line.split() for line in text.split("\n"))
    return list(dict.fromkeys(field[0] for field in fields if field))


def _from_pickles(data: bytes) -> list[str]:
    """Words of the dict that holds `idx2sym`, in a pickle or several."""
    if zipfile.is_zipfile(io.BytesIO(data)):  # PyTorch since 1.6
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [n for n in archive.namelist() if n.endswith("data.pkl")]
            if not names:
                raise ValueError("a zip file without data.pkl")
            data = archive.read(names[0])
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        # PyTorch before 1.6 wrote several pickles, one behind the other.
        value = _PlainUnpickler(stream).load()
        if isinstance(value, dict) and "idx2sym" in value:
            return _check_words(value["idx2sym"])
    raise ValueError("there is no idx2sym")


def _check_words(words: Iterable[Any]) -> list[str]:
    found = list(words)
    strangers = [word for word in found if not isinstance(word, str)]
    if strangers:
        raise ValueError(f"{strangers[0]!r} among the words")
    return found


class _Nothing:
    """Stands for every object of a pickle that is no plain data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        pass

    def extend(self, items: Any) -> None:
        pass


class _PlainUnpickler(pickle.Unpickler):
    """Makes plain data; classes and functions are not even imported."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "collections" and name == "OrderedDict":
            return collections.OrderedDict
        if module == "collections" and name == "Counter":
            return collections.Counter
        return _Nothing

    def persistent_load(self, pid: Any) -> Any:
        return _Nothing()
