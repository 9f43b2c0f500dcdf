"""A vocabulary: words or characters in the order of their ids.

Vocabularies are JSON or text. Nothing here runs code from a file.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_txl.whole_files import write_whole

FILE_NAME = "vocabulary.json"


class Vocabulary:
    """Tokens by id and ids by token.

    Args:
        tokens: strings in the order of their ids, all different, none empty.

    Attributes:
        tokens: tuple of str.
        ids: dict of ids by token.

    Raises:
        ValueError: if a token is empty or comes twice.
        TypeError: if these are no strings.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = tuple(tokens)
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        for number, token in enumerate(self.tokens):
            if not isinstance(token, str):
                raise TypeError(
                    "A vocabulary must hold strings in the order of their "
                    f"ids. Received: {token!r} at id {number}. Turn a dict "
                    "of ids round: sorted(ids, key=ids.get)."
                )
            if not token or self.ids[token] != number:
                why = "comes twice" if token else "is empty"
                raise ValueError(
                    "The tokens of a vocabulary must be different and not "
                    f"empty. Received: {token!r} at id {number}, which {why}. "
                    "Leave it out."
                )
        if not self.tokens:
            raise ValueError(
                "A vocabulary must hold at least one token. Received: none."
            )

    def __len__(self) -> int:
        return len(self.tokens)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON list, whole or not at all."""
        write_whole(
            path, json.dumps(self.tokens, ensure_ascii=False, indent=0) + "\n"
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Read what `write` wrote."""
        try:
            tokens = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise ValueError(
                "A vocabulary must be a JSON list of strings. Received: "
                f"{str(path)!r} ({error}). Read other formats with "
                "`read_vocabulary`."
            ) from error
        if not isinstance(tokens, list):
            raise ValueError(
                "A vocabulary must be a JSON list of strings. Received: "
                f"{str(path)!r}, which holds a {type(tokens).__name__}."
            )
        return cls(tokens)


def most_common(
    counts: Counter[str],
    *,
    special: Sequence[str] = (),
    required: Sequence[str] = (),
    min_count: int = 1,
    max_size: int | None = None,
) -> list[str]:
    """Tokens by falling count, as the released code orders them.

    Adaptive cutoffs rest on this order: frequent tokens have small ids.
    Tokens of equal counts stay in the order in which they were first seen.

    Args:
        counts: how often each token came.
        special: tokens that come first, whatever their counts.
        required: tokens that come last if they did not come at all.
        min_count: leave out what came less often.
        max_size: size of the vocabulary, `special` and `required` included.
            Default: no limit.

    Returns:
        List of tokens.

    Raises:
        ValueError: if `max_size` has no room for the special tokens.
    """
    chosen = dict.fromkeys(special)
    missing = [token for token in required if token not in chosen]
    if max_size is not None and max_size < len(chosen) + len(missing):
        raise ValueError(
            "The size of a vocabulary must have room for its special tokens. "
            f"Received: {max_size}, with {', '.join([*chosen, *missing])}."
        )
    for token, count in counts.most_common():
        absent = [token for token in missing if token not in chosen]
        room = max_size is None or len(chosen) + len(absent) < max_size
        if token in absent:
            chosen[token] = None
        elif count < min_count:
            break
        elif room:
            chosen[token] = None
    chosen.update(dict.fromkeys(missing))
    return list(chosen)


def fingerprint(parts: Any) -> str:
    """SHA-256 of what JSON can tell, for headers of encoded corpora."""
    told = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
