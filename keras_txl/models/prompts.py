"""What a language model is given: raw texts or ids, full prompts or empty."""

from typing import Any

import keras
import numpy as np
from keras import ops


def holds_text(x: Any) -> bool:
    """Whether data are raw strings that a preprocessor must encode."""
    if isinstance(x, (str, bytes)):
        return True
    if hasattr(x, "element_spec"):  # a tf.data.Dataset
        return any(
            "string" in str(getattr(spec, "dtype", ""))
            for spec in keras.tree.flatten(x.element_spec)
        )
    if isinstance(x, (list, tuple)):
        return bool(x) and holds_text(x[0])
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    return kind in ("U", "S", "O") or "string" in str(getattr(x, "dtype", ""))


def check_prompts(inputs: Any) -> None:
    """Raise where a prompt holds nothing to continue."""
    if isinstance(inputs, dict) and "padding_mask" in inputs:
        mask = np.asarray(ops.convert_to_numpy(inputs["padding_mask"]))
        empty = not np.all(mask.any(axis=-1))
    else:
        if hasattr(inputs, "dtype"):  # an array or tensor of strings
            inputs = np.asarray(inputs).reshape(-1).tolist()
        texts = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        empty = any(
            isinstance(text, (str, bytes)) and not text for text in texts
        )
    if empty:
        raise ValueError(
            "Each prompt must hold at least one token to continue. Received "
            'an empty prompt. Pass some text, for example "\\n".'
        )
