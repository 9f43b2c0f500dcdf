"""Writes an encoded corpus piece by piece, and goes on after interruptions."""

import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from keras_txl.data.disk_space import cannot_write
from keras_txl.data.token_file import BLOCK_BYTES
from keras_txl.data.token_file import DOCUMENTS
from keras_txl.data.token_file import FORMAT
from keras_txl.data.token_file import HEADER
from keras_txl.data.token_file import TOKENS
from keras_txl.data.token_file import VERSION
from keras_txl.data.token_file import smallest_type
from keras_txl.whole_files import write_whole

PARTIAL = ".partial"
PROGRESS = "progress.json"


class TokenFileWriter:
    """Writes ids to `path/.partial`, and moves them to `path` when done.

    Args:
        path: folder of the encoded corpus.
        vocabulary_size: ids are below it; sets their type.
        settings: what must agree for an interrupted run to go on: a dict for
            JSON. If it does not agree the work begins anew.

    Attributes:
        pieces: pieces written so far, those of an earlier run included.
        text_sum: checksum of their text.
        folder: where they are until the end.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        vocabulary_size: int,
        settings: dict[str, Any],
    ) -> None:
        self.path = Path(path)
        self.folder = self.path / PARTIAL
        self._dtype = smallest_type(vocabulary_size)
        self._size = vocabulary_size
        self._settings = json.loads(json.dumps(settings))
        state = self._read_progress()
        if state is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            with self._told_if_full():
                self.folder.mkdir(parents=True)
            state = {
                "pieces": 0,
                "num_tokens": 0,
                "num_documents": 0,
                "sums": [],
                "documents_sum": 0,
                "text_sum": 0,
                "vocabulary_size": vocabulary_size,
                "settings": self._settings,
            }
        self._state = state
        self._tokens = self._open(TOKENS, self._dtype.itemsize)
        self._documents = self._open(DOCUMENTS, 8)

    @property
    def pieces(self) -> int:
        return int(self._state["pieces"])

    @property
    def text_sum(self) -> int:
        return int(self._state["text_sum"])

    @property
    def num_tokens(self) -> int:
        """Tokens written so far."""
        return int(self._state["num_tokens"])

    def write(
        self, ids: np.ndarray, ends_document: bool, text_sum: int = 0
    ) -> None:
        """Write the ids of one piece.

        Args:
            ids: integer array.
            ends_document: whether the document ends behind it.
            text_sum: checksum of the text of all pieces up to this one.

        Raises:
            ValueError: if an id is outside of the vocabulary.
        """
        state = {**self._state, "sums": [*self._state["sums"]]}
        if len(ids) and not 0 <= ids.min() <= ids.max() < self._size:
            raise ValueError(
                f"Ids must be from 0 to {self._size - 1}. Received: ids from "
                f"{ids.min()} to {ids.max()}. Pass the `vocabulary_size` of "
                "the tokenizer."
            )
        data = ids.astype(self._dtype).tobytes()
        done = state["num_tokens"] * self._dtype.itemsize
        with self._told_if_full():
            self._tokens.write(data)
        while data:
            if done % BLOCK_BYTES == 0:
                state["sums"].append(0)
            part = data[: BLOCK_BYTES - done % BLOCK_BYTES]
            state["sums"][-1] = zlib.crc32(part, state["sums"][-1])
            data = data[len(part) :]
            done += len(part)
        state["num_tokens"] += len(ids)
        if ends_document:
            end = np.array([state["num_tokens"]], "<i8").tobytes()
            with self._told_if_full():
                self._documents.write(end)
            state["documents_sum"] = zlib.crc32(end, state["documents_sum"])
            state["num_documents"] += 1
        state["pieces"] += 1
        state["text_sum"] = text_sum
        self._state = state  # at once, wherever Ctrl-C comes

    def save_progress(self) -> None:
        """Make what was written safe against an interruption."""
        with self._told_if_full():
            for file in (self._tokens, self._documents):
                file.flush()
                os.fsync(file.fileno())
            _write_json(self.folder / PROGRESS, self._state)

    def close(self) -> None:
        """Close the files; what is safe stays for another run."""
        self._tokens.close()
        self._documents.close()

    def finish(self, **header: Any) -> None:
        """Write the header and move the corpus into its place.

        Args:
            **header: what else the header shall hold.
        """
        try:
            self.save_progress()
        finally:
            self.close()
        state = self._state
        told = {
            "format": FORMAT,
            "version": VERSION,
            "dtype": self._dtype.newbyteorder("<").str,
            "vocabulary_size": self._size,
            "num_tokens": state["num_tokens"],
            "num_documents": state["num_documents"],
            "checksums": {
                TOKENS: state["sums"],
                DOCUMENTS: [state["documents_sum"]],
            },
            **header,
        }
        # The header last: with it the corpus is there, without it it is not.
        (self.path / HEADER).unlink(missing_ok=True)
        with self._told_if_full():
            for name in (TOKENS, DOCUMENTS):
                os.replace(self.folder / name, self.path / name)
            _write_json(self.path / HEADER, told)
        shutil.rmtree(self.folder)

    @contextmanager
    def _told_if_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise cannot_write(
                error,
                "The encoded corpus",
                self.path,
                "Make room, or make the folder writable, and encode again, "
                "which goes on where this ended.",
            ) from error

    def _read_progress(self) -> dict[str, Any] | None:
        """The state of an interrupted run, if it can be continued."""
        try:
            text = (self.folder / PROGRESS).read_text(encoding="utf-8")
            state: dict[str, Any] = json.loads(text)
            tokens = (self.folder / TOKENS).stat().st_size
            documents = (self.folder / DOCUMENTS).stat().st_size
            whole = (
                state["settings"] == self._settings
                and state["vocabulary_size"] == self._size
                and "text_sum" in state
                and tokens >= state["num_tokens"] * self._dtype.itemsize
                and documents >= state["num_documents"] * 8
            )
        except (OSError, ValueError, KeyError):
            return None
        return state if whole else None

    def _open(self, name: str, itemsize: int) -> Any:
        """Open a file for writing, cut to what is safe."""
        count = "num_tokens" if name == TOKENS else "num_documents"
        path = self.folder / name
        path.touch()
        os.truncate(path, self._state[count] * itemsize)
        return open(path, "ab")


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=1) + "\n")
