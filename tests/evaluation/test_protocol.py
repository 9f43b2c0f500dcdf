"""What a protocol says, refuses and leaves behind."""

import math

import numpy as np
import pytest

from keras_txl.evaluation import EvaluationProtocol
from keras_txl.evaluation import StreamEvaluation
from keras_txl.evaluation import bootstrap_interval
from keras_txl.evaluation import evaluate_stream
from keras_txl.evaluation import published_protocol
from keras_txl.models.evaluation_settings import settings_in_use
from tests.oracles.weights import randomize

pytestmark = pytest.mark.backend("tensorflow")

SIZES = {"segment_length": 4, "batch_size": 2}


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(attention_window=9, eval_clamp_length=3)
    randomize(lm, seed=1, scale=1.0)
    return lm


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(2)
    return [rng.integers(0, 17, size) for size in (13, 9)]


def test_settings_act_on_compiled_functions_and_leave_no_trace(lm, documents):
    before = settings_in_use(lm.backbone)
    built = evaluate_stream(lm, documents, **SIZES)
    clamped = evaluate_stream(lm, documents, clamp_length=1, **SIZES)
    narrow = evaluate_stream(lm, documents, attention_window=2, **SIZES)
    again = evaluate_stream(lm, documents, **SIZES)
    np.testing.assert_array_equal(built.document_nats, again.document_nats)
    assert abs(built.nats - clamped.nats) > 1e-3
    assert abs(built.nats - narrow.nats) > 1e-3
    assert settings_in_use(lm.backbone) == before


def test_a_failure_leaves_the_settings_of_the_model(lm, documents):
    before = settings_in_use(lm.backbone)
    with pytest.raises(ValueError, match="vocabulary"):
        evaluate_stream(lm, [np.array([1, 99])], clamp_length=1, **SIZES)
    assert settings_in_use(lm.backbone) == before


def test_warmup_with_enough_memory_gives_the_loss_of_one_stream(lm, documents):
    one = {"segment_length": 4, "memory_length": 30}
    whole = evaluate_stream(lm, documents, batch_size=1, **one)
    cut = evaluate_stream(lm, documents, batch_size=3, **one)
    warm = evaluate_stream(lm, documents, batch_size=3, warmup_tokens=30, **one)
    assert abs(cut.nats - whole.nats) > 1e-3
    np.testing.assert_allclose(
        warm.document_nats, whole.document_nats, rtol=1e-5
    )


def test_the_protocol_has_no_setting_left_open(lm, documents):
    result = evaluate_stream(lm, documents, **SIZES)
    assert result.protocol == EvaluationProtocol(
        memory_length=6, clamp_length=3, attention_window=9, **SIZES
    )
    again = evaluate_stream(lm, documents, **vars(result.protocol))
    assert again.nats == result.nats
    assert again.protocol_line == result.protocol_line


def test_the_line_tells_settings_text_and_weights_apart(lm, documents):
    line = evaluate_stream(lm, documents, **SIZES).protocol_line
    assert "\n" not in line
    assert "segment 4, memory 6, clamp 3, window 9, batch 2, warm-up 0" in line
    assert "20 targets in 2 documents" in line
    joined = evaluate_stream(lm, np.concatenate(documents), **SIZES)
    assert digest(line, "text") != digest(joined.protocol_line, "text")
    assert digest(line, "weights") == digest(joined.protocol_line, "weights")
    lm(documents[0][None, :4])  # fills a memory, changes no weight
    same = evaluate_stream(lm, documents, **SIZES).protocol_line
    assert same == line
    weight = lm.trainable_variables[0]
    kept = weight.numpy()
    weight.assign(kept + 1e-3)
    other = evaluate_stream(lm, documents, **SIZES).protocol_line
    weight.assign(kept)
    assert digest(line, "weights") != digest(other, "weights")
    assert digest(line, "text") == digest(other, "text")


def digest(line, name):
    return line.split(f"{name} ")[1].split(";")[0]


def test_words_are_counted_where_the_caller_counts_them(lm, documents):
    plain = evaluate_stream(lm, documents, **SIZES)
    assert plain.num_words is None
    assert plain.word_perplexity is None
    result = evaluate_stream(lm, documents, document_words=[3, 2], **SIZES)
    assert result.word_perplexity == pytest.approx(math.exp(result.nats / 5))
    with pytest.raises(ValueError, match="`document_words` must have one"):
        evaluate_stream(lm, documents, document_words=[3], **SIZES)


def test_a_word_that_costs_too_much_has_no_finite_perplexity():
    one = np.ones(1, "int64")
    result = StreamEvaluation(one * 999.0, one, one, 0.0, 0, one)
    assert result.word_perplexity == math.inf


def test_the_published_protocol_is_that_of_the_paper():
    protocol = published_protocol("txl_wt103_base")
    assert protocol == EvaluationProtocol(
        segment_length=64,
        memory_length=640,
        clamp_length=400,
        attention_window="memory_length",
    )
    changed = published_protocol("txl_lm1b_base", batch_size=3)
    assert (changed.clamp_length, changed.batch_size) == (None, 3)
    with pytest.raises(ValueError, match="must be one of txl_enwik8_base"):
        published_protocol("txl_wt104_base")


@pytest.mark.parametrize("reading", [{"memory_length": 0}, {"stride": 2}])
@pytest.mark.parametrize("window", ["memory_length", "memory_length+1"])
def test_a_window_told_by_memory_hides_nothing_where_there_is_none(
    make_lm, documents, window, reading
):
    lm = make_lm(num_layers=1, eval_attention_window=window)
    lm.compile(run_eagerly=True)
    randomize(lm, seed=1, scale=1.0)
    result = evaluate_stream(lm, documents, **SIZES, **reading)
    assert result.protocol.attention_window is None
    everything = {**SIZES, **reading, "attention_window": None}
    expected = evaluate_stream(lm, documents, **everything)
    np.testing.assert_array_equal(result.document_nats, expected.document_nats)
    everything["attention_window"] = 1  # each token itself
    alone = evaluate_stream(lm, documents, **everything)
    assert abs(alone.nats - result.nats) > 1e-3


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"stride": 5}, "must be at most `segment_length`"),
        ({"stride": 2, "memory_length": 4}, "windows without memory"),
        ({"stride": 2, "warmup_tokens": 4}, "windows without memory"),
        ({"warmup_tokens": -1}, "`warmup_tokens` must be an integer"),
        ({"stride": 0}, "`stride` must be an integer"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        EvaluationProtocol(segment_length=4, **settings)


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"clamp_length": 0}, "`clamp_length` must be an integer"),
        ({"attention_window": "all"}, "`attention_window` must be None"),
    ],
)
def test_settings_that_no_model_takes_are_refused(lm, settings, told):
    with pytest.raises(ValueError, match=told):
        EvaluationProtocol(segment_length=4, **settings).resolved(lm)


def test_a_model_without_distances_refuses_a_clamp_length(make_lm):
    lm = make_lm(position="none")
    protocol = EvaluationProtocol(segment_length=4)
    assert protocol.resolved(lm).clamp_length is None
    with pytest.raises(ValueError, match="has no effect on a model with"):
        EvaluationProtocol(segment_length=4, clamp_length=3).resolved(lm)


def test_learned_distances_are_clamped_in_every_layer(make_lm):
    lm = make_lm(position="relative_learned", max_distance=12)
    randomize(lm, seed=2, scale=1.0)
    documents = np.arange(30) % 17
    built = evaluate_stream(lm, documents, **SIZES)
    clamped = evaluate_stream(lm, documents, clamp_length=2, **SIZES)
    assert len(settings_in_use(lm.backbone)) == 1 + 2 * 2
    assert abs(built.nats - clamped.nats) > 1e-3


def test_the_interval_of_one_evaluation_holds_its_figure():
    rng = np.random.default_rng(0)
    sizes = rng.integers(50, 300, 200)
    nats = sizes * rng.normal(2, 0.3, 200)
    interval = bootstrap_interval(
        StreamEvaluation(nats, sizes, sizes, 1.0, 1), num_resamples=2000
    )
    figure = nats.sum() / sizes.sum() / math.log(2)
    assert interval.estimate == pytest.approx(figure)
    assert interval.low < figure < interval.high
    assert interval.high - interval.low == pytest.approx(
        2 * 1.96 * 0.3 / math.log(2) / math.sqrt(200), rel=0.3
    )
    with pytest.raises(ValueError, match="at least 2 documents"):
        one = np.ones(1, "int64")
        bootstrap_interval(StreamEvaluation(one, one, one, 1.0, 1))
