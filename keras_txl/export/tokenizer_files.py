"""A tokenizer in the forms that edge runtimes read.

`tokenizer.json` is what Hugging Face's `tokenizers` reads, `tokenizer.model`
what SentencePiece reads, and `vocab.txt` names the ids, one a line.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_tokenizer(tokenizer: Any, folder: Path) -> str:
    """Write what there is for a tokenizer.

    Args:
        tokenizer: of the model.
        folder: where the files go.

    Returns:
        The kind for the manifest: `"bytes"`, `"characters"`, `"words"`,
        `"byte-pairs"`, `"sentence-piece"`, or `"other"` if there are no files
        in these forms for the tokenizer.
    """
    from keras_txl import tokenizers as ours

    if isinstance(tokenizer, ours.TransformerXLByteTokenizer):
        tokens = [f"<0x{byte:02X}>" for byte in range(256)]
        characters = {c: byte for byte, c in enumerate(_visible_characters())}
        files = _byte_level(characters, [], use_regex=False)
        kind = "bytes"
    elif isinstance(tokenizer, ours.TransformerXLCharacterTokenizer):
        tokens = tokenizer.get_vocabulary()
        files = _characters(tokens, tokenizer.unknown_token)
        kind = "characters"
    elif isinstance(tokenizer, ours.TransformerXLWordTokenizer):
        tokens = tokenizer.get_vocabulary()
        files = _words(tokens, tokenizer)
        kind = "words"
    elif isinstance(tokenizer, ours.TransformerXLBytePairTokenizer):
        ids = dict(tokenizer.vocabulary)
        tokens = sorted(ids, key=ids.__getitem__)
        files = _byte_level(
            ids, list(tokenizer.merges), True, tokenizer.add_prefix_space
        )
        kind = "byte-pairs"
    elif isinstance(tokenizer, ours.TransformerXLSentencePieceTokenizer):
        (folder / "tokenizer.model").write_bytes(tokenizer.proto)
        size = tokenizer.vocabulary_size()
        tokens = [tokenizer.id_to_token(token) for token in range(size)]
        files, kind = None, "sentence-piece"
    else:
        return "other"
    lines = "".join(f"{_in_a_line(token)}\n" for token in tokens)
    (folder / "vocab.txt").write_text(lines, "utf-8")
    if files is not None:
        _write(folder / "tokenizer.json", files)
        _write(
            folder / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "clean_up_tokenization_spaces": False,
                "model_max_length": 10**9,
            },
        )
    return kind


def _write(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    path.write_text(text, "utf-8")


def _in_a_line(token: str) -> str:
    """A token as it is, but for characters that would end the line."""
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in token)


def _file(
    model: dict[str, Any],
    pre_tokenizer: dict[str, Any],
    decoder: dict[str, Any],
    normalizer: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def _byte_level(
    vocabulary: dict[str, int],
    merges: list[str],
    use_regex: bool,
    add_prefix_space: bool = False,
) -> dict[str, Any]:
    """Byte pairs; bytes alone are pairs that never merge."""
    bytewise = {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": False,
        "use_regex": use_regex,
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": vocabulary,
        "merges": merges,
    }
    return _file(model, bytewise, bytewise)


def _word_level(tokens: Sequence[str], unknown: str) -> dict[str, Any]:
    ids = {token: number for number, token in enumerate(tokens)}
    return {"type": "WordLevel", "vocab": ids, "unk_token": unknown}


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {
        "type": "Replace",
        "pattern": {"Regex": pattern},
        "content": content,
    }


def _characters(tokens: Sequence[str], unknown: str | None) -> dict[str, Any]:
    """Each character a word; others are an error without `unknown`."""
    each = {
        "type": "Split",
        "pattern": {"Regex": r"[\s\S]"},
        "behavior": "Isolated",
        "invert": False,
    }
    model = _word_level(tokens, unknown or "<none>")
    return _file(model, each, {"type": "Fuse"})


def _words(tokens: Sequence[str], tokenizer: Any) -> dict[str, Any]:
    """The rules of `TransformerXLWordTokenizer` for lines."""
    end, start = tokenizer.end_of_line_token, tokenizer.start_of_line_token
    # White space that Rust does not take for such.
    changes = [_replace(r"[\x1c-\x1f]", " ")]
    if tokenizer.lowercase:
        changes.append({"type": "Lowercase"})
    shown = []
    if end is not None:
        changes.append(_replace(r"\r\n?", "\n"))
        if start is not None:
            changes.append(_replace(r"\n\z", f" {end} "))
            changes.append({"type": "Prepend", "prepend": f"{start} "})
        line = f" {end} " if start is None else f" {end} {start} "
        changes.append(_replace(r"\n", line))
        if start not in (None, end):
            shown.append(_replace(rf"\A{re.escape(start)}\z", "\r"))
        shown.append(_replace(rf"\A{re.escape(end)}\z", "\n"))
    # A space before each word but the first; none begins with a space.
    spaces = {"type": "WordPiece", "prefix": " ", "cleanup": False}
    lines = [_replace(old, new) for old, new in tokenizer.line_patterns()]
    return _file(
        _word_level(tokens, tokenizer.unknown_token),
        {"type": "WhitespaceSplit"},
        {
            "type": "Sequence",
            "decoders": [*shown, spaces, {"type": "Fuse"}, *lines],
        },
        {"type": "Sequence", "normalizers": changes},
    )


def _visible_characters() -> list[str]:
    """The character that stands for each byte, as GPT-2 chose them."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte if byte in shown else next(hidden)) for byte in range(256)]
