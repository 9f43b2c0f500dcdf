"""A report collects what the analysis measures."""

import numpy as np
import pytest

from keras_txl import analysis
from keras_txl.evaluation import token_losses
from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.report import measure_reading
from keras_txl.tokenizers import TransformerXLByteTokenizer
from tests.oracles.weights import randomize

pytestmark = pytest.mark.backend("tensorflow")

DOCUMENTS = [
    np.frombuffer(text, "uint8") for text in (b"ships sail by night", b"ships")
]
SETTINGS = {"segment_length": 4, "memory_length": 4}


def make_byte_lm(make_lm, **overrides):
    backbone = make_lm(vocabulary_size=256, **overrides).backbone
    preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    lm = TransformerXLCausalLM(backbone, preprocessor)
    lm.compile(run_eagerly=True)
    randomize(lm, seed=3)
    return lm


@pytest.fixture(scope="module")
def lm(make_lm):
    return make_byte_lm(make_lm, num_layers=1)


@pytest.fixture(scope="module")
def measured(lm):
    """Measurements, and what was told of their progress."""
    told = []
    found = measure_reading(
        lm, DOCUMENTS, **SETTINGS, progress=lambda *news: told.append(news)
    )
    return found, told


def test_each_part_is_that_of_the_analysis(lm, measured):
    found, told = measured
    warm = token_losses(lm, DOCUMENTS, **SETTINGS)
    assert list(found.curve) == [0, 1, 2, 4, 8, 16]
    assert found.bits_with == pytest.approx(
        np.concatenate(warm).mean() / np.log(2)
    )
    assert found.bits_without == found.curve[0].bits_per_token
    assert found.interval.num_documents == 2
    shown = b"".join(ids.tobytes() for ids in DOCUMENTS).decode()
    assert "".join(piece.text for piece in found.pieces) == shown
    cold = token_losses(lm, DOCUMENTS, segment_length=4, memory_length=0)
    for name, nats in (("with_memory", warm), ("without_memory", cold)):
        bits = [getattr(piece, name) for piece in found.pieces]
        assert bits[1 : len(DOCUMENTS[0])] == pytest.approx(nats[0] / np.log(2))
    assert not np.allclose(warm[0], cold[0])
    np.testing.assert_array_equal(
        found.attention,
        analysis.attention_by_distance(lm, DOCUMENTS, **SETTINGS),
    )
    np.testing.assert_array_equal(
        found.trace.drift,
        analysis.trace_memory(lm, DOCUMENTS, **SETTINGS).drift,
    )
    np.testing.assert_array_equal(
        found.relative_keys.kernels, analysis.relative_keys(lm, 8).kernels
    )
    assert list(found.effective_context) == [0.1, 0.5, 1.0]
    assert found.effective_context[0.5].longest <= 8
    assert [news[:2] for news in told] == [(n, 15) for n in range(16)]


def test_terms_are_those_behind_a_full_memory(lm, measured):
    found = measured[0]
    ids = DOCUMENTS[0][None].astype("int32")
    _, memory = lm.step(ids[:, :4], lm.initial_memory(1, 4))
    scores = analysis.attention_terms(lm, ids[:, 4:8], memory)["b"]
    # Loop over queries: each sees four slots and what stands before it.
    spread = np.mean(
        [scores[0, 0, :, i, : 5 + i].std(axis=-1) for i in range(4)], axis=0
    )
    np.testing.assert_allclose(found.terms["b"][0], spread, rtol=1e-5)


def test_other_positions_and_short_texts_leave_parts_out(make_lm):
    lm = make_byte_lm(make_lm, num_layers=1, position="none")
    found = measure_reading(lm, [DOCUMENTS[0][:5]], **SETTINGS)
    assert found.terms is None and found.relative_keys is None
    assert found.effective_context == {}
    assert found.interval is None
    assert list(found.curve) == [0, 1, 2, 4]


def test_a_window_told_by_memory_is_not_narrower_than_a_segment(make_lm):
    lm = make_byte_lm(
        make_lm, num_layers=1, eval_attention_window="memory_length"
    )
    found = measure_reading(lm, [DOCUMENTS[0][:5]], **SETTINGS)
    windows = {
        length: result.protocol.attention_window
        for length, result in found.curve.items()
    }
    assert windows == {0: None, 4: 4, 8: 8, 16: 16}


def test_what_lacks_memory_or_a_tokenizer_is_refused(make_lm):
    lm = make_byte_lm(make_lm, num_layers=1, memory_length=0)
    with pytest.raises(ValueError, match="`memory_length` must be"):
        measure_reading(lm, DOCUMENTS, segment_length=4)
    bare = TransformerXLCausalLM(lm.backbone)
    with pytest.raises(ValueError, match="must have a preprocessor"):
        measure_reading(bare, DOCUMENTS, segment_length=4)
