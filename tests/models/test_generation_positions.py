"""Generation with every scheme of positions equals one step a token."""

import keras
import numpy as np
import pytest

from tests.oracles.weights import randomize
from tests.tolerances import to_numpy

SCHEMES = {
    "relative_learned": {"max_distance": 4, "share_attention_biases": False},
    "relative_learned_clamped": {"max_distance": 9, "clamp_length": 3},
    "relative_clipped": {"max_distance": 3},
    "relative_clipped_values": {"max_distance": 5, "relative_values": True},
    "absolute_sinusoidal": {},
    "absolute_learned": {"max_distance": 5},
    "none": {},
}
PROMPTS = ([3, 1, 4], [2, 7, 1, 8, 2])
LENGTH = 12  # far beyond the memory


def make(make_lm, name, **overrides):
    position = name.removesuffix("_clamped").removesuffix("_values")
    lm = make_lm(
        position=position,
        batch_size=None,
        tie_embeddings=False,
        **SCHEMES[name],
        **overrides,
    )
    lm.compile(sampler="greedy")
    draw(lm, seed=2)
    return lm


def draw(lm, seed):
    """Weights that make a text vary: large ones, and no preferred token."""
    randomize(lm, seed, scale=1.0)
    lm.output_bias.bias.assign(np.zeros(17))
    for block in lm.backbone.transformer_layers:
        block.intermediate.bias.assign(np.zeros(16))
        block.projection.bias.assign(np.zeros(8))
        for norm in (block.attention_norm, block.feed_forward_norm):
            norm.gamma.assign(np.ones(8))
            norm.beta.assign(np.zeros(8))


def generated(lm):
    token_ids = np.zeros((len(PROMPTS), LENGTH), "int32")
    mask = np.zeros(token_ids.shape, bool)
    for row, prompt in enumerate(PROMPTS):
        token_ids[row, : len(prompt)] = prompt
        mask[row, : len(prompt)] = True
    outputs = lm.generate(
        {"token_ids": token_ids, "padding_mask": mask}, stop_token_ids=None
    )
    return to_numpy(outputs["token_ids"]).tolist()


def check_texts(lm, newest_logits):
    """Texts of three draws of weights, which must not be one token alone."""
    tokens = set()
    for seed in (1, 2, 4):
        draw(lm, seed)
        expected = [continued(prompt, newest_logits) for prompt in PROMPTS]
        assert generated(lm) == expected
        for text, prompt in zip(expected, PROMPTS, strict=True):
            tokens.update(text[len(prompt) :])
    assert len(tokens) >= 4


def continued(prompt, newest_logits):
    """Greedy continuation of a prompt by the logits of its newest token."""
    text = list(prompt)
    while len(text) < LENGTH:
        text.append(int(newest_logits(text).argmax()))
    return text


def logits_token_by_token(lm, text):
    """Of the newest token, every token fed as a segment of its own."""
    memory = lm.initial_memory(1)
    for token in text:
        logits, memory = lm.step(np.array([[token]], "int32"), memory)
    return to_numpy(logits)[0, -1]


def logits_of_one_segment(lm, text):
    """Of the newest token, the text fed as one segment, padded on the right.

    One length for all texts: each would be compiled again.
    """
    token_ids = np.zeros((1, LENGTH), "int32")
    document_ids = np.full((1, LENGTH), -1, "int32")
    token_ids[0, : len(text)] = text
    document_ids[0, : len(text)] = 0
    logits, _ = lm.step(
        {"token_ids": token_ids, "document_ids": document_ids},
        lm.initial_memory(1),
    )
    return to_numpy(logits)[0, len(text) - 1]


@pytest.mark.parametrize(
    "name", [name for name in SCHEMES if not name.startswith("absolute")]
)
def test_greedy_text_equals_one_token_at_a_time_with_memory(make_lm, name):
    """Keys and values are cached; a token sees the M tokens before it."""
    lm = make(make_lm, name, memory_length=4)
    check_texts(lm, lambda text: logits_token_by_token(lm, text))


@pytest.mark.parametrize(
    "memory_length, window", [(0, None), (4, "memory_length")]
)
@pytest.mark.parametrize("name", ["absolute_sinusoidal", "absolute_learned"])
def test_greedy_text_equals_recomputing_the_whole_text(
    make_lm, name, memory_length, window
):
    """A new token moves the position of all others: nothing is cached."""
    lm = make(
        make_lm, name, memory_length=memory_length, attention_window=window
    )
    check_texts(lm, lambda text: logits_of_one_segment(lm, text))


@pytest.mark.parametrize("name", SCHEMES)
def test_generation_goes_on_from_a_memory(make_lm, name):
    lm = make(make_lm, name, memory_length=4)
    past = np.array([[5, 6, 7, 8], [9, 10, 11, 12]], "int32")
    _, memory = lm.step(past, lm.initial_memory(2))
    token_ids = np.zeros((2, 4), "int32")
    token_ids[:, :2] = [[3, 1], [2, 7]]
    outputs = lm.generate_step(
        {
            "token_ids": keras.ops.convert_to_tensor(token_ids),
            "padding_mask": keras.ops.convert_to_tensor(
                np.array([[True, True, False, False]] * 2)
            ),
            "memory": memory,
        }
    )
    found = to_numpy(outputs["token_ids"])
    for row in range(2):
        text = token_ids[row, :2].tolist()
        alone = {key: value[row : row + 1] for key, value in memory.items()}
        for _ in range(2):
            if name.startswith("absolute"):
                segment = np.array([text], "int32")
                logits, _ = lm.step(segment, alone)
            else:
                state = alone
                for token in text:
                    logits, state = lm.step(np.array([[token]], "int32"), state)
            text.append(int(to_numpy(logits)[0, -1].argmax()))
        assert found[row].tolist() == text
