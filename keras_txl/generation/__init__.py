"""Loops that turn a step function and a cache into text."""

from keras_txl.generation.decoding import sample_tokens

__all__ = ["sample_tokens"]
