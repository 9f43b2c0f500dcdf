"""Text as token ids and back, by the files that stand beside a model."""

import codecs
import importlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONTEXT = 8  # tokens that are decoded again with those that follow
LONGEST_CHARACTER = 4  # bytes, each of which may be a token


class Text:
    """Text as ids and back, by the files of the tokenizer.

    Bytes need nothing else; `tokenizer.json` needs `pip install tokenizers`,
    `tokenizer.model` needs `pip install sentencepiece`.

    Args:
        folder: of the model.
        manifest: of the model.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.kind = (manifest["tokenizer"] or {}).get("kind")
        self.encode: Callable[[str], list[int]] = self._refuse
        self.decode: Callable[[list[int]], str] = self._refuse
        if self.kind == "bytes":
            self.encode = lambda text: list(text.encode())
            self.decode = lambda ids: bytes(ids).decode("utf-8", "replace")
        elif self.kind in ("characters", "words", "byte-pairs"):
            tokenizers = self._module("tokenizers")
            tokenizer = tokenizers.Tokenizer.from_file(
                str(folder / "tokenizer.json")
            )
            self.encode = lambda text: list(tokenizer.encode(text).ids)
            self.decode = tokenizer.decode
        elif self.kind == "sentence-piece":
            sentencepiece = self._module("sentencepiece")
            processor = sentencepiece.SentencePieceProcessor(
                model_file=str(folder / "tokenizer.model")
            )
            self.encode = lambda text: list(processor.encode(text))
            self.decode = processor.decode

    def _module(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise ValueError(
                f"Text of this model needs the package {name}. Received: a "
                f"tokenizer of {self.kind}. Run: pip install {name}"
            ) from error

    def _refuse(self, _: Any) -> Any:
        raise ValueError(
            "Text needs a tokenizer with files in the model folder. Received: "
            f"a model with tokenizer {self.kind!r}. Use `generate_ids` with "
            "ids."
        )

    def decode_stream(
        self, token_ids: Iterable[int], before: Sequence[int]
    ) -> Iterator[str]:
        """The text of ids as it comes, in whole characters.

        Args:
            token_ids: as they are said.
            before: the ids behind which they stand: whether a space comes
                between two tokens is known from both.
        """
        if self.kind == "bytes":
            pieces = (bytes([token_id]) for token_id in token_ids)
            yield from codecs.iterdecode(pieces, "utf-8", "replace")
            return
        seen, held = list(before)[-CONTEXT:], []
        for token_id in token_ids:
            held.append(token_id)
            text = self._behind(seen, held)
            if not text.endswith("\ufffd") or len(held) > LONGEST_CHARACTER:
                yield text
                seen, held = (seen + held)[-CONTEXT:], []
        yield self._behind(seen, held)

    def _behind(self, seen: list[int], held: list[int]) -> str:
        return self.decode(seen + held)[len(self.decode(seen)) :]
