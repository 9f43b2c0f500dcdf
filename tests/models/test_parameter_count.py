"""The counted parameters are those of models that were made."""

import math

import pytest

from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from tests.oracles.parameter_count import count_backbone_parameters

SIZES = {
    "vocabulary_size": 23,
    "num_layers": 3,
    "num_heads": 2,
    "hidden_dim": 16,
    "intermediate_dim": 20,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"head_dim": 5},
        {"embedding_dim": 6},
        {"embedding_dim": 6, "tie_projections": True},
        {"embedding_dim": 6, "tie_embeddings": False},
        {"tie_embeddings": False},
        {"share_attention_biases": False, "normalize_first": True},
        {"memory_layer_norm": True},
        {"cutoffs": [5, 9]},
        {"cutoffs": [5, 9], "embedding_dim": 6},
        {"cutoffs": [5, 9], "embedding_dim": 6, "tie_projections": False},
        {"cutoffs": [5, 9], "div_val": 2},
        {"cutoffs": [5, 9], "div_val": 2, "tie_projections": True},
        {"cutoffs": [5, 9], "div_val": 2, "tie_projections": False},
        {"cutoffs": [5, 9], "div_val": 2, "tie_embeddings": False},
    ],
    ids=str,
)
def test_count_equals_a_model_that_was_made(arguments):
    arguments = {**SIZES, **arguments}
    lm = TransformerXLCausalLM(TransformerXLBackbone(**arguments))
    made = sum(math.prod(weight.shape) for weight in lm.trainable_weights)
    assert count_backbone_parameters(**arguments) == made
