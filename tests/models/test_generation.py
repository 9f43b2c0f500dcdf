"""`generate` against one call of `step` a token, and the KerasHub contract."""

import keras_hub
import numpy as np
import pytest
from keras import ops

from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

MEMORY = 5
LENGTH = 18  # several times the memory
PROMPTS = ([3, 1, 4], [2, 7, 1, 8, 2, 8, 1])


def draw(lm, seed):
    """Large weights, no biases: a text varies and prefers no token."""
    randomize(lm, seed, scale=1.0)
    lm.output_bias.bias.assign(np.zeros(lm.output_bias.bias.shape))
    for block in lm.backbone.transformer_layers:
        norms = [block.attention_norm, block.feed_forward_norm]
        if block.memory_layer_norm:
            norms.append(block.memory_norm)
        for variable in (
            block.intermediate.bias,
            block.projection.bias,
            *(norm.beta for norm in norms),
        ):
            variable.assign(np.zeros(variable.shape))
        for norm in norms:
            norm.gamma.assign(np.ones(norm.gamma.shape))


def make(make_lm, **overrides):
    arguments = {
        "memory_length": MEMORY,
        "tie_embeddings": False,
        "batch_size": 1,
    }
    lm = make_lm(**{**arguments, **overrides})
    lm.compile(sampler="greedy")
    draw(lm, seed=6)
    return lm


def prompts_as_arrays(prompts=PROMPTS, length=LENGTH):
    token_ids = np.zeros((len(prompts), length), "int32")
    mask = np.zeros(token_ids.shape, bool)
    for row, prompt in enumerate(prompts):
        token_ids[row, : len(prompt)] = prompt
        mask[row, : len(prompt)] = True
    return {"token_ids": token_ids, "padding_mask": mask}


def generated(lm, prompts=PROMPTS, length=LENGTH, memory=None, stops=None):
    inputs = prompts_as_arrays(prompts, length)
    if memory is not None:
        inputs["memory"] = memory
    outputs = lm.generate(inputs, stop_token_ids=stops)
    return {key: np.asarray(value) for key, value in outputs.items()}


def fed(lm, tokens, memory):
    """Logits of the last token and memory; each token is a segment."""
    for token in tokens:
        logits, memory = lm.step(np.array([[token]], "int32"), memory)
    return to_numpy(logits)[0, -1], memory


def continued(lm, prompt, length=LENGTH, memory=None):
    """Greedy text, one call of `step` a token."""
    slots = LENGTH if lm.backbone.memory_length == 0 else None
    memory = memory or lm.initial_memory(1, slots)
    text = list(prompt)
    logits, memory = fed(lm, text, memory)
    while len(text) < length:
        text.append(int(logits.argmax()))
        logits, memory = fed(lm, text[-1:], memory)
    return text


@pytest.fixture(scope="module")
def greedy_lm(make_lm):
    return make(make_lm)


@pytest.fixture
def lm(greedy_lm):
    draw(greedy_lm, seed=6)
    return greedy_lm


# === Greedy text ===
@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"normalize_first": True, "share_attention_biases": False},
        {"attend_empty_memory": True},
        {"attention_window": 3, "clamp_length": 2},
        {"memory_length": 0},
        {"memory_length": 2, "eval_memory_length": MEMORY},
        {"attention_logit_cap": 1.5, "memory_layer_norm": True},
    ],
    ids=[
        "post_norm",
        "pre_norm",
        "zeros",
        "window",
        "no_memory",
        "longer",
        "cap_and_norm",
    ],
)
def test_greedy_text_equals_one_step_a_token_far_beyond_memory(
    make_lm, overrides
):
    lm = make(make_lm, **overrides)
    seen = set()
    for seed in (5, 6):
        draw(lm, seed)
        expected = [continued(lm, prompt) for prompt in PROMPTS]
        outputs = generated(lm)
        assert outputs["token_ids"].tolist() == expected
        assert outputs["padding_mask"].all()
        for text, prompt in zip(expected, PROMPTS, strict=True):
            seen.update(text[len(prompt) :])
    assert len(seen) >= 4  # or the test could not fail


def test_a_row_is_continued_as_if_alone(lm):
    both = generated(lm)["token_ids"]
    for row in range(2):
        alone = generated(lm, [PROMPTS[row]] * 2)["token_ids"]
        assert alone.tolist() == [both[row].tolist()] * 2


def test_generation_depends_on_the_past(lm):
    memory = lm.initial_memory(1)
    texts = []
    for past in ([5, 6, 7], [11, 2, 9]):
        _, filled = fed(lm, past, memory)
        texts.append(generated(lm, [[3]], memory=filled)["token_ids"].tolist())
    assert texts[0] != texts[1]


def test_generation_touches_no_memory_bank(lm):
    ids = np.array([[1, 2, 3, 4]], "int32")
    lm(ids)
    lm(ids, training=True)
    before = [to_numpy(variable).copy() for variable in lm.variables]
    generated(lm)
    for variable, value in zip(lm.variables, before, strict=True):
        assert_close(variable, value, tolerances.EXACT, variable.path)


def test_the_callers_inputs_are_left_as_they_are(lm):
    inputs = prompts_as_arrays()
    lm.generate(inputs, stop_token_ids=None)
    for key, value in prompts_as_arrays().items():
        assert_close(inputs[key], value, tolerances.EXACT, key)


def test_stop_tokens_end_the_mask_of_each_row_alone(lm):
    free = generated(lm)["token_ids"]
    stop = int(free[0, len(PROMPTS[0]) + 2])
    outputs = generated(lm, stops=(stop,))
    for row, prompt in enumerate(PROMPTS):
        new = free[row, len(prompt) :].tolist()
        end = len(prompt) + (new.index(stop) + 1 if stop in new else len(new))
        mask = outputs["padding_mask"][row]
        assert mask.tolist() == [place < end for place in range(LENGTH)]
        assert outputs["token_ids"][row, :end].tolist() == (
            free[row, :end].tolist()
        )
    # A stop token in the prompt ends nothing.
    outputs = generated(lm, stops=(PROMPTS[1][0],))
    assert outputs["padding_mask"][1, : len(PROMPTS[1]) + 1].all()


# === Samplers ===
def samplers(seed=None):
    names = keras_hub.samplers
    return {
        "greedy": lambda: names.GreedySampler(),
        "top_k": lambda: names.TopKSampler(k=4, seed=seed),
        "top_p": lambda: names.TopPSampler(p=0.9, seed=seed),
        "random": lambda: names.RandomSampler(temperature=2.0, seed=seed),
        "beam": lambda: names.BeamSampler(num_beams=3),
        "contrastive": lambda: names.ContrastiveSampler(k=3, alpha=0.4),
    }


@pytest.fixture(scope="module")
def small_lm(make_lm):
    lm = make(make_lm, num_layers=1)
    # Flat logits: draws differ.
    randomize(lm, seed=2, scale=0.3)
    return lm


@pytest.mark.parametrize("name", samplers())
def test_every_sampler_runs_and_its_seed_makes_it_repeat(small_lm, name):
    texts = []
    for seed in (3, 3, 4):
        small_lm.compile(sampler=samplers(seed)[name]())
        texts.append(generated(small_lm)["token_ids"])
        if name in ("greedy", "beam", "contrastive"):
            break
    for text in texts:
        assert text.min() >= 0 and text.max() < 17
        for row, prompt in enumerate(PROMPTS):
            assert text[row, : len(prompt)].tolist() == prompt
    if len(texts) > 1:
        assert texts[0].tolist() == texts[1].tolist()
        assert texts[0].tolist() != texts[2].tolist()


def test_a_seeded_sampler_goes_on_from_call_to_call(small_lm):
    small_lm.compile(sampler=samplers(3)["random"]())
    first = generated(small_lm)["token_ids"]
    second = generated(small_lm)["token_ids"]
    assert first.tolist() != second.tolist()


PAST = [9, 4, 16, 0, 11, 2, 2, 13]  # longer than the memory


@pytest.mark.parametrize("name", ["greedy", "beam", "contrastive"])
def test_memory_and_prompt_are_continued_as_one_text(make_lm, small_lm, name):
    """Samplers feed the newest token twice; the cache must not mind."""
    chosen = {
        "greedy": samplers()["greedy"],
        "beam": samplers()["beam"],
        # Its penalty compares states of the prompt, not those of memory.
        "contrastive": lambda: keras_hub.samplers.ContrastiveSampler(
            k=3, alpha=0.0
        ),
    }[name]()
    small_lm.compile(sampler=chosen)
    prompts = [[3, 1, 4, 1, 5, 9], [2, 7, 1, 8, 2, 8, 1, 8]]  # these as well
    whole = generated(small_lm, [PAST + prompt for prompt in prompts], 24)
    memory = small_lm.initial_memory(2)
    for token in PAST:
        _, memory = small_lm.step(np.array([[token]] * 2, "int32"), memory)
    split = generated(small_lm, prompts, 24 - len(PAST), memory=memory)
    assert split["token_ids"].tolist() == (
        whole["token_ids"][:, len(PAST) :].tolist()
    )


def test_beams_find_the_likeliest_continuation(make_lm):
    lm = make_lm(vocabulary_size=4, num_layers=1, tie_embeddings=False)
    draw(lm, seed=6)
    lm.compile(sampler=keras_hub.samplers.BeamSampler(num_beams=4))
    prompts = [[1, 3, 0], [2, 2, 1]]
    found = generated(lm, prompts, 5)["token_ids"]
    for row, prompt in enumerate(prompts):
        logits, memory = fed(lm, prompt, lm.initial_memory(1))
        first = to_numpy(ops.log_softmax(logits))
        scores = []
        for token in range(4):
            logits, _ = fed(lm, [token], memory)
            scores.append(first[token] + to_numpy(ops.log_softmax(logits)))
        best = np.unravel_index(np.argmax(scores), (4, 4))
        assert found[row, 3:].tolist() == [int(token) for token in best]
    greedy = [continued(lm, prompt, 5) for prompt in prompts]
    assert found.tolist() != greedy  # or nothing was searched


def test_contrastive_search_without_penalty_is_greedy(small_lm):
    small_lm.compile(
        sampler=keras_hub.samplers.ContrastiveSampler(k=4, alpha=0.0)
    )
    found = generated(small_lm)["token_ids"].tolist()
    assert found == [continued(small_lm, prompt) for prompt in PROMPTS]


# === Text ===
@pytest.fixture(scope="module")
def text_lm():
    """Writes letters, one of few, by what it read."""
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    backbone = TransformerXLBackbone(
        256, 1, 2, 8, 8, memory_length=4, dropout=0.0, tie_embeddings=False
    )
    lm = TransformerXLCausalLM(
        backbone,
        TransformerXLCausalLMPreprocessor(
            TransformerXLByteTokenizer(), sequence_length=16
        ),
    )
    lm.compile(sampler="greedy")
    draw(lm, seed=14)
    bias = np.full(256, -1e4)
    bias[ord("a") : ord("z") + 1] = 0
    lm.output_bias.bias.assign(bias)
    return lm


def text_of(lm, prompt, length):
    tokens = continued(lm, list(prompt.encode()), length)
    return bytes(tokens).decode()


def test_a_string_comes_back_continued(text_lm):
    text = text_lm.generate("The sea")
    assert text == text_of(text_lm, "The sea", 16)  # the `sequence_length`
    assert len(set(text[7:])) > 2


def test_max_length_counts_prompt_and_continuation(text_lm):
    assert text_lm.generate("The", max_length=9) == text_of(text_lm, "The", 9)
    assert text_lm.generate("The", max_length=3) == "The"


def test_a_list_of_strings_comes_back_as_a_list(text_lm):
    prompts = ["The sea", "né", "x"]
    expected = [text_of(text_lm, prompt, 16) for prompt in prompts]
    assert text_lm.generate(prompts) == expected


def test_strip_prompt_returns_the_continuation_alone(text_lm):
    prompts = ["The sea", "né"]
    expected = [text_of(text_lm, prompt, 16) for prompt in prompts]
    found = text_lm.generate(prompts, strip_prompt=True)
    assert found == [
        text.removeprefix(prompt)
        for text, prompt in zip(expected, prompts, strict=True)
    ]


def test_text_ends_at_a_stop_token(text_lm):
    text = text_of(text_lm, "The sea", 16)
    stop = text[10]
    found = text_lm.generate("The sea", stop_token_ids=[ord(stop)])
    end = text.index(stop, 7) + 1
    assert found in (text[:end], text[: end - 1])


def test_a_dataset_of_texts_is_continued_batch_by_batch(text_lm):
    import tensorflow as tf

    prompts = ["The sea", "né", "x"]
    dataset = tf.data.Dataset.from_tensor_slices(prompts).batch(2)
    assert text_lm.generate(dataset) == text_lm.generate(prompts)


@pytest.mark.parametrize("prompts", ["", ["a", ""], np.array(["a", ""])])
def test_an_empty_text_is_an_error(text_lm, prompts):
    with pytest.raises(ValueError, match="at least one token to continue"):
        text_lm.generate(prompts)


def test_an_empty_row_of_ids_is_an_error(lm):
    with pytest.raises(ValueError, match="at least one token to continue"):
        generated(lm, [[1, 2], []])


def test_ids_without_a_preprocessor_need_stop_tokens_or_none(lm):
    with pytest.raises(ValueError, match="preprocessor"):
        lm.generate(prompts_as_arrays())


def test_generation_needs_no_memory_of_the_batch_size(lm):
    assert lm.memory_batch_size == 1
    assert generated(lm, [*PROMPTS, [4]])["token_ids"].shape == (3, LENGTH)


@pytest.mark.backend("tensorflow", "torch")
def test_an_eager_loop_writes_the_same_text(make_lm, lm):
    expected = generated(lm, length=10)["token_ids"].tolist()
    eager = make(make_lm)
    eager.compile(sampler="greedy", run_eagerly=True)
    assert generated(eager, length=10)["token_ids"].tolist() == expected
