"""Text to token ids and back, for generation and for padded batches."""

from typing import Any

import keras
import keras_hub

from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.tokenizers import TransformerXLByteTokenizer


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLCausalLMPreprocessor(keras_hub.models.CausalLMPreprocessor):
    """Turns strings into padded ids, one document a row.

    Contiguous streams for training come from `keras_txl.data.SegmentStream`;
    this class serves `generate`, and `fit` on short texts.

    Args:
        tokenizer: a tokenizer of `keras_txl.tokenizers`.
        sequence_length: int. Tokens of a row, and the default `max_length` of
            `generate`.
        add_start_token: bool. Needs a tokenizer that has one.
        add_end_token: bool. Needs a tokenizer that has one.
        **kwargs: other arguments of `keras_hub.models.CausalLMPreprocessor`.
    """

    backbone_cls = TransformerXLBackbone
    tokenizer_cls = TransformerXLByteTokenizer

    def __init__(
        self,
        tokenizer: Any,
        sequence_length: int = 1024,
        add_start_token: bool = False,
        add_end_token: bool = False,
        **kwargs: Any,
    ) -> None:
        for wanted, name in (
            (add_start_token, "start"),
            (add_end_token, "end"),
        ):
            if wanted and getattr(tokenizer, f"{name}_token_id", 0) is None:
                raise ValueError(
                    f"`add_{name}_token` needs a tokenizer with a {name} "
                    f"token. Received: {type(tokenizer).__name__}, which has "
                    f"none. Pass add_{name}_token=False."
                )
        super().__init__(
            tokenizer=tokenizer,
            sequence_length=sequence_length,
            add_start_token=add_start_token,
            add_end_token=add_end_token,
            **kwargs,
        )
