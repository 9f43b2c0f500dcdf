"""Metrics of language models, weighted by token."""

from keras_txl.metrics.bits_per_character import BitsPerCharacter
from keras_txl.metrics.perplexity import Perplexity

__all__ = ["BitsPerCharacter", "Perplexity"]
