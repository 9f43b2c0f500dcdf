"""Layers of several policies in one model: each computes in its own type."""

import keras
import pytest

from keras_txl.models.kept_projections import KeptProjections
from tests import tolerances
from tests.models.test_quantization import IDS
from tests.models.test_quantization import TARGETS
from tests.models.test_quantization import losses
from tests.models.test_quantization import make
from tests.models.test_quantization import ready
from tests.models.test_quantization import reload
from tests.tolerances import assert_close

ADAPTIVE = {"cutoffs": [64, 128], "div_val": 2}
CLIPPED = {
    "position": "relative_clipped",
    "max_distance": 6,
    "relative_values": True,
}
LEARNED = {"position": "absolute_learned", "max_distance": 20}
MIXED, WIDE = "mixed_bfloat16", "float32"
# What is built, the policy of most layers, and that of those with this path.
CASES = {
    "attention": ({}, WIDE, MIXED, "transformer_layer_0/attention.*"),
    "attention, norms and biases": ({}, MIXED, WIDE, ".*attention.*"),
    "projections": (
        {"memory_layer_norm": True},
        MIXED,
        WIDE,
        ".*(query|value|output)",
    ),
    "feed-forward": (
        {"normalize_first": True},
        WIDE,
        "bfloat16",
        ".*/(intermediate|projection|feed_forward_norm)",
    ),
    "norms": ({"normalize_first": True}, MIXED, WIDE, ".*_norm"),
    "embedding": (ADAPTIVE, WIDE, MIXED, "token_embedding/table_1"),
    "adaptive softmax": (ADAPTIVE, MIXED, WIDE, "adaptive_softmax"),
    "block": ({}, MIXED, WIDE, "transformer_layer_0"),
    "memory": ({}, WIDE, MIXED, "segment_memory_0"),
    "table of distances": (CLIPPED, WIDE, MIXED, ".*position_terms.*"),
    "table of positions": (LEARNED, MIXED, WIDE, "absolute_position_0.*"),
}
SAVED = "attention", "adaptive softmax"


def policies(default, other, paths):
    return keras.dtype_policies.DTypePolicyMap(
        default, {paths: keras.DTypePolicy(other)}
    )


def types(model):
    """Compute types of the layers that have a path."""
    return {
        layer.compute_dtype for layer in model._flatten_layers() if layer.path
    }


@pytest.mark.parametrize("name", CASES)
def test_layers_of_other_types_work_together(name, tmp_path):
    arguments, *chosen = CASES[name]
    lm = make(batch_size=2, dtype=policies(*chosen), **arguments)
    assert types(lm) == {"float32", "bfloat16"}
    wide = losses(make(**arguments))
    assert_close(losses(lm), wide, tolerances.BFLOAT16, "losses")
    if KeptProjections.suits(lm.backbone):
        kept = KeptProjections(lm, IDS.shape[1])
        found, _ = kept.token_losses(IDS, TARGETS, lm.initial_memory(2))
        assert_close(found, wide[0], tolerances.BFLOAT16, "kept projections")
    if keras.backend.backend() == "jax" and name not in SAVED:
        return  # the rest would be compiled for each case
    lm.fit(IDS, TARGETS, verbose=0)
    assert lm.generate("The", max_length=5).startswith("The")
    if name in SAVED:
        after = losses(lm)
        lm.save(tmp_path / "lm.keras")
        loaded = keras.saving.load_model(tmp_path / "lm.keras")
        assert_close(losses(ready(loaded)), after, tolerances.EXACT, "file")
        loaded = reload(lm, tmp_path / "preset", dtype=policies(*chosen))
        assert_close(losses(loaded), after, tolerances.EXACT, "preset")
