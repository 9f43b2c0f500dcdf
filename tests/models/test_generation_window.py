"""`generate` far beyond memory: read in segments, kept in a ring."""

import keras
import keras_hub
import numpy as np
import pytest

from keras_txl.models import text_generation
from keras_txl.models.value_function import compile_value_function
from tests.models.test_generation import draw
from tests.models.test_generation import prompts_as_arrays
from tests.tolerances import to_numpy

MEMORY = 70  # so that long pieces are read, then short ones
PROMPT = 150
LENGTH = 158


@pytest.fixture(scope="module")
def lm(make_lm):
    lm = make_lm(memory_length=MEMORY, tie_embeddings=False, batch_size=None)
    draw(lm, seed=5)
    return lm


@pytest.fixture(scope="module")
def read_token(lm):
    """Hidden state and probabilities of a token a row, and the memory."""

    def read(ids, memory):
        hidden, memory = lm.backbone.call_with_memory(ids, memory)
        logits = lm.head.logits(hidden, keras.ops.zeros_like(ids))
        return hidden[:, 0], keras.ops.softmax(logits[:, 0]), memory

    compiled = compile_value_function(lm, read)

    def run(ids, memory):
        ids = keras.ops.convert_to_tensor(np.asarray(ids, "int32")[:, None])
        hidden, probabilities, memory = compiled(ids, memory)
        return to_numpy(hidden), to_numpy(probabilities), memory

    return run


@pytest.fixture(scope="module")
def prompts():
    ids = np.random.default_rng(1).integers(0, 17, (2, PROMPT))
    return [ids[0].tolist(), ids[1, : PROMPT - 3].tolist()]


def generated(lm, prompts, length=LENGTH):
    inputs = prompts_as_arrays(prompts, length)
    outputs = lm.generate(inputs, stop_token_ids=None)
    return np.asarray(outputs["token_ids"]).tolist()


@pytest.fixture(scope="module")
def read_prompts(lm, read_token, prompts):
    """For each: states, probabilities behind it, memory; token by token."""
    results = []
    for prompt in prompts:
        memory, states = lm.initial_memory(1), []
        for token in prompt:
            hidden, probabilities, memory = read_token([token], memory)
            states.append(hidden[0])
        results.append((states, probabilities, memory))
    return results


def searched(read_token, prompt, read_prompt, k, alpha):
    """Contrastive search, one row, every token a segment of its own."""
    states, probabilities, after = read_prompt
    text, states, best = list(prompt), list(states), 0
    while len(text) < LENGTH:
        memory = {
            name: np.repeat(to_numpy(value)[best : best + 1], k, 0)
            for name, value in after.items()
        }
        candidates = np.argsort(-probabilities[best])[:k]
        chances = (1 - alpha) * probabilities[best, candidates]
        hidden, probabilities, after = read_token(candidates, memory)
        past = np.stack(states)
        cosines = past @ hidden.T / np.linalg.norm(past, axis=1)[:, None]
        cosines /= np.linalg.norm(hidden, axis=1)
        best = int(np.argmax(chances - alpha * cosines.max(axis=0)))
        text.append(int(candidates[best]))
        states.append(hidden[best])
    return text


def test_a_prompt_of_many_segments_is_continued_as_token_by_token(
    lm, read_token, prompts, read_prompts
):
    texts = []
    for k, alpha in ((1, 0.0), (3, 0.9)):  # greedy is the search without it
        search = keras_hub.samplers.ContrastiveSampler(k=k, alpha=alpha)
        lm.compile(sampler=search if alpha else "greedy")
        expected = [
            searched(read_token, prompt, read, k, alpha)
            for prompt, read in zip(prompts, read_prompts, strict=True)
        ]
        assert generated(lm, prompts) == expected
        texts.append([text[-8:] for text in expected])
    assert len(set(np.ravel(texts[0]))) >= 4
    assert texts[0] != texts[1]  # or the states would not matter


def test_what_is_kept_and_read_does_not_grow_with_the_text(
    make_lm, monkeypatch
):
    lm = make_lm(num_layers=1, memory_length=4, batch_size=None)
    lm.compile(sampler="greedy")
    fed, kept = set(), []
    embed, sample = lm.backbone.embed, text_generation.sample_tokens

    def watch_embed(ids, *rest):
        fed.add(tuple(ids.shape))
        return embed(ids, *rest)

    def watch_sample(step, cache, *rest, **options):
        kept.append([tuple(leaf.shape) for leaf in keras.tree.flatten(cache)])
        assert rest[3] is None  # no hidden state of the prompt
        return sample(step, cache, *rest, **options)

    monkeypatch.setattr(lm.backbone, "embed", watch_embed)
    monkeypatch.setattr(text_generation, "sample_tokens", watch_sample)
    for prompt, length in ((3, 70), (250, 260)):
        generated(lm, [[1] * prompt], length)
    assert fed == {(1, 64), (1, 1)}
    shapes = [(1, 1), (1, 2, 4, 5), (1, 2, 5, 4)]  # length, keys, values
    assert [sorted(leaves) for leaves in kept] == [shapes, shapes]


@pytest.mark.backend("tensorflow")
def test_a_graph_of_any_batch_and_length_generates(make_lm):
    """As an exported signature has it."""
    import tensorflow as tf

    for memory_length in (4, 0):
        lm = make_lm(memory_length=memory_length, batch_size=None)
        lm.compile(sampler="greedy")
        draw(lm, seed=6)
        generate = tf.function(
            lambda ids, mask, lm=lm: lm.generate_step(
                {"token_ids": ids, "padding_mask": mask}
            ),
            input_signature=[
                tf.TensorSpec((None, None), "int32"),
                tf.TensorSpec((None, None), "bool"),
            ],
        )
        for prompts, length in (([[3, 1, 4], [2]], 12), ([[5] * 70], 80)):
            inputs = prompts_as_arrays(prompts, length)
            found = generate(inputs["token_ids"], inputs["padding_mask"])
            expected = generated(lm, prompts, length)
            assert found["token_ids"].numpy().tolist() == expected


@pytest.mark.backend("tensorflow")  # elsewhere the ring is the same with it
def test_a_graph_of_xla_writes_the_same(make_lm):
    lm = make_lm(num_layers=1, memory_length=4, batch_size=None)
    texts = []
    for jit_compile in (False, True):
        lm.compile(sampler="greedy", jit_compile=jit_compile)
        draw(lm, seed=5)
        texts.append(generated(lm, [[3, 1, 4, 1, 5, 9], [2, 7]], 20))
    assert texts[0] == texts[1]
