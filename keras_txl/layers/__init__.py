"""Keras layers of a Transformer-XL."""

from keras_txl.layers.absolute_position import AbsolutePosition
from keras_txl.layers.adaptive_embedding import AdaptiveEmbedding
from keras_txl.layers.adaptive_softmax import AdaptiveSoftmax
from keras_txl.layers.attention_biases import RelativeAttentionBiases
from keras_txl.layers.attention_mask import SegmentAttentionMask
from keras_txl.layers.distance_encoding import SinusoidalDistanceEncoding
from keras_txl.layers.embedding_projection import EmbeddingProjection
from keras_txl.layers.learned_distance_encoding import LearnedDistanceEncoding
from keras_txl.layers.output_bias import OutputBias
from keras_txl.layers.position_terms import ClippedPositionTerms
from keras_txl.layers.position_terms import LearnedPositionTerms
from keras_txl.layers.position_terms import NoPositionTerms
from keras_txl.layers.relative_attention import RelativeMultiHeadAttention
from keras_txl.layers.segment_memory import SegmentMemory
from keras_txl.layers.token_packing import PackTokens
from keras_txl.layers.token_packing import UnpackTokens
from keras_txl.layers.transformer_xl_block import TransformerXLBlock

__all__ = [
    "AbsolutePosition",
    "AdaptiveEmbedding",
    "AdaptiveSoftmax",
    "ClippedPositionTerms",
    "EmbeddingProjection",
    "LearnedDistanceEncoding",
    "LearnedPositionTerms",
    "NoPositionTerms",
    "OutputBias",
    "PackTokens",
    "RelativeAttentionBiases",
    "RelativeMultiHeadAttention",
    "SegmentAttentionMask",
    "SegmentMemory",
    "SinusoidalDistanceEncoding",
    "TransformerXLBlock",
    "UnpackTokens",
]
