"""Tokenizers for Transformer-XL models. Importing this loads KerasHub."""

from keras_txl.tokenizers.byte_tokenizer import TransformerXLByteTokenizer

__all__ = ["TransformerXLByteTokenizer"]
