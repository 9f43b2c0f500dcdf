"""Tokenizers for Transformer-XL models. Importing this loads KerasHub."""

from keras_txl.tokenizers.byte_pair_tokenizer import (
    TransformerXLBytePairTokenizer,
)
from keras_txl.tokenizers.byte_tokenizer import TransformerXLByteTokenizer
from keras_txl.tokenizers.character_tokenizer import TEXT8_CHARACTERS
from keras_txl.tokenizers.character_tokenizer import (
    TransformerXLCharacterTokenizer,
)
from keras_txl.tokenizers.sentence_piece_tokenizer import (
    TransformerXLSentencePieceTokenizer,
)
from keras_txl.tokenizers.tokenizer_folder import load_tokenizer
from keras_txl.tokenizers.tokenizer_training import train_tokenizer
from keras_txl.tokenizers.vocabulary_files import read_vocabulary
from keras_txl.tokenizers.word_tokenizer import TransformerXLWordTokenizer

__all__ = [
    "TEXT8_CHARACTERS",
    "TransformerXLBytePairTokenizer",
    "TransformerXLByteTokenizer",
    "TransformerXLCharacterTokenizer",
    "TransformerXLSentencePieceTokenizer",
    "TransformerXLWordTokenizer",
    "load_tokenizer",
    "read_vocabulary",
    "train_tokenizer",
]
