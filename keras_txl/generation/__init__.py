"""Loops that turn a step function and a cache into text."""

from keras_txl.generation.decoding import sample_tokens
from keras_txl.generation.incremental_text import IncrementalText
from keras_txl.generation.memory_file import load_memory
from keras_txl.generation.memory_file import save_memory
from keras_txl.generation.token_stream import TextStream
from keras_txl.generation.token_stream import TokenStream

__all__ = [
    "IncrementalText",
    "TextStream",
    "TokenStream",
    "load_memory",
    "sample_tokens",
    "save_memory",
]
