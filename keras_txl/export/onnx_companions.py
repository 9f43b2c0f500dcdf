"""What runtimes look for beside `model.onnx`."""

import json
from pathlib import Path
from typing import Any

from keras_txl.export.tokenizer_files import write_tokenizer

LONGEST_TEXT = 2**20
"""Tokens that ONNX Runtime GenAI may keep of one text."""


def write_companions(
    lm: Any, folder: Path, manifest: dict[str, Any]
) -> dict[str, Any] | None:
    """Write `config.json`, the tokenizer and what GenAI reads.

    Args:
        lm: a `TransformerXLCausalLM`.
        folder: that holds the model.
        manifest: of the model.

    Returns:
        What the manifest says of the tokenizer, the kind of its files added.
    """
    model, stops = manifest["model"], manifest["sampling"]["stop_token_ids"]
    files: dict[str, Any] = {
        "config.json": {
            "model_type": "keras_txl",
            "architectures": [type(lm).__name__],
            "vocab_size": model["vocabulary_size"],
            "hidden_size": model["hidden_dim"],
            "intermediate_size": model["intermediate_dim"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "head_dim": model["head_dim"],
            "mem_len": model["memory_length"],
        },
        "generation_config.json": {
            "do_sample": True,
            "temperature": manifest["sampling"]["temperature"],
            "top_k": manifest["sampling"]["top_k"],
            "top_p": manifest["sampling"]["top_p"],
            "eos_token_id": stops,
        },
    }
    if manifest["flavour"] == "kv":
        files["genai_config.json"] = _genai_config(model, stops)
    for name, value in files.items():
        text = json.dumps(value, indent=2) + "\n"
        (folder / name).write_text(text, "utf-8")
    tokenizer = getattr(lm.preprocessor, "tokenizer", None)
    if tokenizer is None:
        return None
    kind = write_tokenizer(tokenizer, folder)
    return {**manifest["tokenizer"], "kind": kind}


def _genai_config(model: dict[str, Any], stops: list[int]) -> dict[str, Any]:
    """The configuration that ONNX Runtime GenAI reads.

    Of its types, "llama" is the one that takes any decoder by the names of its
    inputs and outputs.
    """
    return {
        "model": {
            "type": "llama",
            "eos_token_id": stops,
            **({"pad_token_id": stops[0]} if stops else {}),
            "vocab_size": model["vocabulary_size"],
            "context_length": LONGEST_TEXT,
            "decoder": {
                "session_options": {"provider_options": []},
                "filename": "model.onnx",
                "head_size": model["head_dim"],
                "hidden_size": model["hidden_dim"],
                "num_attention_heads": model["num_heads"],
                "num_key_value_heads": model["num_heads"],
                "num_hidden_layers": model["num_layers"],
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {
            "do_sample": False,
            "max_length": 2048,
            "past_present_share_buffer": False,
        },
    }
