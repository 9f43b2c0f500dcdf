"""Each layer as `ClassCase` asks; no registered layer may be left out."""

import keras
import numpy as np
import pytest

from keras_txl import layers
from keras_txl.layers.absolute_position import AbsolutePosition
from keras_txl.layers.attention_biases import RelativeAttentionBiases
from keras_txl.layers.attention_mask import SegmentAttentionMask
from keras_txl.layers.embedding_projection import EmbeddingProjection
from keras_txl.layers.learned_distance_encoding import LearnedDistanceEncoding
from keras_txl.layers.output_bias import OutputBias
from keras_txl.layers.position_terms import ClippedPositionTerms
from keras_txl.layers.position_terms import LearnedPositionTerms
from keras_txl.layers.position_terms import NoPositionTerms
from keras_txl.layers.token_packing import PackTokens
from keras_txl.layers.token_packing import UnpackTokens
from tests.class_case import ClassCase
from tests.class_case import floats
from tests.class_case import integers
from tests.class_case import public_classes

HIDDEN = floats(2, 3, 8)
CONTEXT = floats(2, 5, 8)
IDS = integers(2, 3, below=12)
DOCUMENTS = np.zeros((2, 3), "int32")
SIZES = {"max_distance": 4, "num_heads": 2, "head_dim": 4}
TABLES = {"vocabulary_size": 12, "embedding_dim": 8, "hidden_dim": 8}
BINS = {**TABLES, "cutoffs": [3, 6], "div_val": 2}


def adaptive_embedding():
    return layers.AdaptiveEmbedding(**BINS)


CASES = [
    ClassCase(AbsolutePosition, {}, (HIDDEN, CONTEXT, DOCUMENTS), narrow=None),
    ClassCase(layers.AdaptiveEmbedding, BINS, (IDS,)),
    ClassCase(layers.AdaptiveSoftmax, {}, (HIDDEN,), narrow="float32"),
    ClassCase(
        ClippedPositionTerms, {**SIZES, "relative_values": True}, (CONTEXT,)
    ),
    ClassCase(
        EmbeddingProjection, {"embedding_dim": 8, "hidden_dim": 6}, (HIDDEN,)
    ),
    ClassCase(
        LearnedDistanceEncoding,
        {"max_distance": 4, "row_shape": (2, 4)},
        (CONTEXT,),
    ),
    ClassCase(LearnedPositionTerms, SIZES, (CONTEXT,)),
    ClassCase(NoPositionTerms, {}, (), narrow=None),
    ClassCase(OutputBias, {"vocabulary_size": 8}, (HIDDEN, DOCUMENTS)),
    ClassCase(PackTokens, {}, (IDS, DOCUMENTS), narrow=None),
    ClassCase(
        RelativeAttentionBiases,
        {"num_heads": 2, "head_dim": 4},
        (),
        narrow=None,
    ),
    ClassCase(
        layers.RelativeMultiHeadAttention,
        {"num_heads": 2, "head_dim": 3},
        (HIDDEN, CONTEXT),
    ),
    ClassCase(
        SegmentAttentionMask,
        {"attention_window": 4},
        (CONTEXT, DOCUMENTS, np.array([1, 2], "int32")),
        narrow=None,
    ),
    ClassCase(
        layers.SegmentMemory, {"memory_length": 2, "batch_size": 2}, (HIDDEN,)
    ),
    ClassCase(layers.SinusoidalDistanceEncoding, {"hidden_dim": 8}, (CONTEXT,)),
    ClassCase(
        layers.TransformerXLBlock,
        {"num_heads": 2, "head_dim": 3, "intermediate_dim": 4},
        (HIDDEN, CONTEXT),
    ),
    ClassCase(UnpackTokens, {}, (HIDDEN, IDS % 3, DOCUMENTS)),
]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    case = request.param
    if case.cls is layers.AdaptiveSoftmax:
        case.arguments["embedding"] = adaptive_embedding()
    if case.cls is AbsolutePosition:
        case.arguments["encoding"] = LearnedDistanceEncoding(9, (8,))
    return case


def test_configuration(case):
    case.check_configuration()


def test_calls(case):
    if case.inputs:
        case.check_calls()


def test_narrow_types(case):
    if case.narrow:
        case.check_narrow()


def test_no_layer_is_left_out():
    registered = {
        cls
        for cls in keras.saving.get_custom_objects().values()
        if isinstance(cls, type)
        and issubclass(cls, keras.layers.Layer)
        and cls.__module__.startswith("keras_txl.layers.")
    }
    tested = {case.cls for case in CASES}
    assert registered == tested
    assert public_classes(layers) <= tested
