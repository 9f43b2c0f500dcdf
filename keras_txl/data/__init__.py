"""Corpora and the streams that models with memory read."""

from keras_txl.data.corpora import Corpus
from keras_txl.data.corpora import load_corpus
from keras_txl.data.segment_stream import SegmentStream
from keras_txl.data.text_files import Document

__all__ = ["Corpus", "Document", "SegmentStream", "load_corpus"]
