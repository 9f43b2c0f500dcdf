"""Corpora and the streams that models with memory read."""

from keras_txl.data.corpora import Corpus
from keras_txl.data.corpora import load_corpus
from keras_txl.data.corpus_encoding import encode_corpus
from keras_txl.data.document_stream import stream_documents
from keras_txl.data.feature_stream import FeatureStream
from keras_txl.data.labelled_segments import labelled_segments
from keras_txl.data.segment_stream import SegmentStream
from keras_txl.data.text_batches import TextBatches
from keras_txl.data.text_files import Document
from keras_txl.data.text_files import read_text_pieces
from keras_txl.data.text_pieces import TextPiece
from keras_txl.data.token_file import TokenFile

__all__ = [
    "Corpus",
    "Document",
    "FeatureStream",
    "SegmentStream",
    "TextBatches",
    "TextPiece",
    "TokenFile",
    "encode_corpus",
    "labelled_segments",
    "load_corpus",
    "read_text_pieces",
    "stream_documents",
]
