"""Texts, or the ids of texts, as one array of token ids each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_txl.models.prompts import holds_text


def encode_texts(
    texts: Any,
    preprocessor: Any,
    vocabulary_size: int,
    *,
    start: bool = True,
    end: bool = True,
) -> list[np.ndarray]:
    """Token ids of each text, neither padded nor cut.

    Args:
        texts: list of str (or bytes), or list of 1-D arrays of int ids.
        preprocessor: its tokenizer reads strings, and strings get the start
            and end token that it adds. May be `None` for ids, which are taken
            as they are.
        vocabulary_size: int. Ids must be below it.
        start: bool. Whether strings may get a start token.
        end: bool. Whether strings may get an end token.

    Returns:
        List of int32 arrays of shape `(length,)`, one a text.

    Raises:
        ValueError: if these are no texts, or ids that the model lacks.
    """
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            "Texts must be a list. Received: one text, "
            f"{texts[:20]!r}. Pass a list of one text: [text]."
        )
    texts = list(texts)
    if holds_text(texts):
        return _encode_strings(texts, preprocessor, start, end)
    return [_check_ids(ids, vocabulary_size) for ids in texts]


def _encode_strings(
    texts: Sequence[Any], preprocessor: Any, start: bool, end: bool
) -> list[np.ndarray]:
    strangers = [text for text in texts if not isinstance(text, (str, bytes))]
    if strangers:
        raise ValueError(
            "Texts must all be strings or all be ids. Received: "
            f"{type(strangers[0]).__name__} among strings."
        )
    if preprocessor is None:
        raise ValueError(
            "Strings need a tokenizer. Received: strings, and a model with "
            "preprocessor=None. Pass arrays of token ids, or set "
            "`lm.preprocessor` to a `TransformerXLCausalLMPreprocessor`."
        )
    tokenizer = preprocessor.tokenizer
    first = [tokenizer.start_token_id] if start else []
    last = [tokenizer.end_token_id] if end else []
    return [
        np.array(
            [
                *(first if preprocessor.add_start_token else []),
                *np.asarray(ids).tolist(),
                *(last if preprocessor.add_end_token else []),
            ],
            "int32",
        )
        for ids in tokenizer(list(texts))
    ]


def _check_ids(ids: Any, vocabulary_size: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            "A text must be a string or a 1-D array of int token ids. "
            f"Received: shape {array.shape}, dtype {array.dtype}. Texts of "
            "different lengths make a list of arrays; padding is left out."
        )
    if array.size and not 0 <= array.min() <= array.max() < vocabulary_size:
        raise ValueError(
            f"Token ids must lie in [0, {vocabulary_size}). Received: ids "
            f"from {array.min()} to {array.max()}. Use the tokenizer that the "
            "model was trained with, and leave padding out."
        )
    return array.astype("int32")
