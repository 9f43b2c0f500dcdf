"""Start and end tokens that a preprocessor may add."""

from typing import Any


def check_special_tokens(
    tokenizer: Any, add_start_token: bool, add_end_token: bool
) -> None:
    """Refuse to add tokens that a tokenizer has not.

    Raises:
        ValueError: if one is wanted and missing.
    """
    for wanted, name in ((add_start_token, "start"), (add_end_token, "end")):
        if wanted and getattr(tokenizer, f"{name}_token_id", 0) is None:
            raise ValueError(
                f"`add_{name}_token` needs a tokenizer with `{name}_token_id`. "
                f"Received: {type(tokenizer).__name__}, which has none. "
                f"Pass add_{name}_token=False."
            )
