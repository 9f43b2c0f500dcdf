"""A tokenizer in the forms that edge runtimes read."""

import json
from pathlib import Path
from typing import Any


def write_tokenizer(tokenizer: Any, folder: Path) -> str:
    """Write `vocab.txt` and `tokenizer.json`.

    Args:
        tokenizer: of the model.
        folder: where they go.

    Returns:
        The kind for the manifest: `"bytes"`, or `"other"` if there are no
        files in these forms for the tokenizer.
    """
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    if not isinstance(tokenizer, TransformerXLByteTokenizer):
        return "other"
    lines = "".join(f"<0x{byte:02X}>\n" for byte in range(256))
    (folder / "vocab.txt").write_text(lines, "utf-8")
    files = {
        "tokenizer.json": _byte_tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": 10**9,
        },
    }
    for name, value in files.items():
        text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
        (folder / name).write_text(text, "utf-8")
    return "bytes"


def _byte_tokenizer() -> dict[str, Any]:
    """Bytes as Hugging Face's library sees them: pairs that never merge."""
    bytewise = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": bytewise,
        "post_processor": None,
        "decoder": bytewise,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {
                character: byte
                for byte, character in enumerate(_visible_characters())
            },
            "merges": [],
        },
    }


def _visible_characters() -> list[str]:
    """The character that stands for each byte, as GPT-2 chose them."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte if byte in shown else next(hidden)) for byte in range(256)]
