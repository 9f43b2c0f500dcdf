"""Models on the hubs of Hugging Face and Kaggle, with a card that fits them."""

import tempfile
from pathlib import Path
from typing import Any

HUGGING_FACE = "hf://"
KAGGLE = "kaggle://"
CARD = "README.md"

# What the hub calls it, and what somebody tries first.
USES = {
    "TransformerXLCausalLM": (
        "text-generation",
        'for text in model.generate_stream("Once"):\n'
        '    print(text, end="", flush=True)',
    ),
    "TransformerXLTextClassifier": (
        "text-classification",
        'print(model.predict(["A text of any length."]))',
    ),
    "TransformerXLTokenClassifier": (
        "token-classification",
        "print(model.label([1, 2, 3]).shape)  # ids of a document",
    ),
}
HEAD = ("num_classes", "segment_length", "pooling")
ARCHITECTURE = (
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "vocabulary_size",
    "cutoffs",
    "position",
    "memory_length",
    "eval_memory_length",
    "attention_window",
    "clamp_length",
)

NOTHING_MEASURED = (
    "Nothing was measured. Fill in figures and how they were measured, for "
    "a language model the line that `keras_txl.evaluation.evaluate_stream` "
    "gives with each."
)
CARD_TEXT = """\
---
library_name: keras-hub
pipeline_tag: {purpose}
license: {licence}
tags: [keras, transformer-xl]
---

# {name}

A Transformer-XL (Dai et al. 2019, arXiv 1901.02860): it reads text as a
stream and carries a memory of {memory} tokens, at a
cost a token that does not grow.

## Use

`pip install keras-txl`; the import makes the classes known to KerasHub.

```python
import keras_txl.models

model = keras_txl.models.{task}.from_preset("{uri}")
{use}
```

## Architecture

| setting | value |
|---|---|
{table}

## Results

{results}

## Training data and limits

To be filled in by the author. A model repeats what its text holds.

## Licence

{terms}
"""


def upload_to_hub(
    model: Any,
    uri: str,
    results: str | None = None,
    licence: str | None = None,
) -> None:
    """Upload a model as a preset, with a card that says how to load it.

    A card that is on the hub already, perhaps written by hand, stays.

    Args:
        model: a `TransformerXLCausalLM`, `TransformerXLTextClassifier` or
            `TransformerXLTokenClassifier`.
        uri: `"hf://user/model"` or
            `"kaggle://user/model/keras/variation"`. The client of the hub
            must be logged in.
        results: as for `model_card`.
        licence: as for `model_card`.

    Raises:
        ValueError: if the address is of no hub, or the model no task.
        OSError: if the hub cannot be reached.
    """
    import keras_hub

    if not uri.startswith((HUGGING_FACE, KAGGLE)):
        raise ValueError(
            "`uri` must begin with hf:// or kaggle://. Received: "
            f"uri={uri!r}. To write a folder on this machine, use "
            "`save_to_preset`."
        )
    with tempfile.TemporaryDirectory() as folder:
        text = model_card(model, uri, results, licence)
        model.save_to_preset(folder)
        card = Path(folder, CARD)
        card.write_text(text, "utf-8")
        if uri.startswith(HUGGING_FACE) and not _send_card(uri, card):
            card.unlink()
        keras_hub.upload_preset(uri, folder)


def model_card(
    model: Any,
    uri: str,
    results: str | None = None,
    licence: str | None = None,
) -> str:
    """What somebody who finds a model on a hub must know, as Markdown.

    Args:
        model: as for `upload_to_hub`.
        uri: where it can be loaded from: an address of a hub or a folder.
        results: Markdown. What was measured and how, such as the
            `protocol_line` of `evaluate_stream`. `None`: a note that nothing
            was.
        licence: its identifier on the hub, such as `"apache-2.0"`. `None`: a
            note that it must be filled in.

    Returns:
        The text of the README.md of a preset.

    Raises:
        ValueError: if the model is no task.

    Example:
    ```python
    card = keras_txl.models.model_card(lm, "hf://me/little-sea", "1.9 bits")
    ```
    """
    names = [base.__name__ for base in type(model).__mro__]
    task = next((name for name in names if name in USES), None)
    if task is None:
        raise ValueError(
            "`model` must be a task, whose card says what it does. Received: "
            f"{names[0]}. Put a head on it: {', '.join(USES)}."
        )
    purpose, use = USES[task]
    return CARD_TEXT.format(
        purpose=purpose,
        licence=licence or "other",
        name=uri.rpartition("/")[2],
        memory=model.backbone.memory_layers[0].slots(training=False),
        task=task,
        uri=uri,
        use=use,
        table=_settings_table(model),
        results=results or NOTHING_MEASURED,
        terms=licence or "Not stated yet: to be filled in by the author.",
    )


def _settings_table(model: Any) -> str:
    """Rows of the table of the architecture."""
    settings = {name: getattr(model, name, None) for name in HEAD}
    settings |= {name: getattr(model.backbone, name) for name in ARCHITECTURE}
    tokenizer = model.preprocessor and model.preprocessor.tokenizer
    tokenizer = type(tokenizer).__name__ if tokenizer else "none: token ids"
    rows = [
        ("parameters", f"{model.count_params():,}"),
        ("tokenizer", tokenizer),
        *((name, value) for name, value in settings.items() if value),
    ]
    return "\n".join(f"| {name} | {value} |" for name, value in rows)


def _send_card(uri: str, card: Path) -> bool:
    """Send the card ahead, or else KerasHub writes one of its own.

    Returns:
        Whether it was sent: not if there is one already.
    """
    import huggingface_hub

    repository = huggingface_hub.create_repo(
        repo_id=uri.removeprefix(HUGGING_FACE), exist_ok=True
    ).repo_id
    if huggingface_hub.file_exists(repo_id=repository, filename=CARD):
        return False
    huggingface_hub.upload_file(
        path_or_fileobj=str(card), path_in_repo=CARD, repo_id=repository
    )
    return True
