"""Text to token ids and back, for generation and for padded batches."""

from typing import Any

import keras
import keras_hub

from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.special_tokens import check_special_tokens
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
        check_special_tokens(tokenizer, add_start_token, add_end_token)
        super().__init__(
            tokenizer=tokenizer,
            sequence_length=sequence_length,
            add_start_token=add_start_token,
            add_end_token=add_end_token,
            **kwargs,
        )
