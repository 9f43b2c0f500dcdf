"""Endless generation: against one step a token, in dialogue, and for long."""

import gc

import keras
import keras_hub
import numpy as np
import pytest

from keras_txl.generation import load_memory
from keras_txl.generation import save_memory
from tests import tolerances
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

MEMORY = 4
PROMPT = list("The sea, né".encode())


def draw(lm, seed):
    """Weights that make a text vary: large ones, and no preferred token."""
    randomize(lm, seed, scale=1.0)
    lm.output_bias.bias.assign(np.zeros(lm.output_bias.bias.shape))
    for block in lm.backbone.transformer_layers:
        for variable in (
            block.intermediate.bias,
            block.projection.bias,
            block.attention_norm.beta,
            block.feed_forward_norm.beta,
        ):
            variable.assign(np.zeros(variable.shape))
        for norm in (block.attention_norm, block.feed_forward_norm):
            norm.gamma.assign(np.ones(norm.gamma.shape))


@pytest.fixture(scope="module")
def lm():
    """A model over bytes that writes letters of one, two and three bytes."""
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    backbone = TransformerXLBackbone(
        256, 1, 2, 8, 8, memory_length=MEMORY, dropout=0.0, tie_embeddings=False
    )
    lm = TransformerXLCausalLM(
        backbone,
        TransformerXLCausalLMPreprocessor(TransformerXLByteTokenizer()),
    )
    lm.compile(sampler="greedy")
    draw(lm, seed=27)
    bias = np.full(256, -1e4)
    bias[list("abcé€".encode())] = 0
    lm.output_bias.bias.assign(bias)
    return lm


def one_step_a_token(lm, prompt, count, memory=None):
    """Greedy ids by `lm.step`, and the memory without the newest."""
    memory = memory or lm.initial_memory(1)
    text = list(prompt)
    for place in range(len(prompt) + count - 1):
        logits, memory = lm.step(np.array([[text[place]]], "int32"), memory)
        if place >= len(prompt) - 1:
            text.append(int(to_numpy(logits)[0, -1].argmax()))
    return text[len(prompt) :], memory


def ids_of(stream):
    return np.concatenate(list(stream), axis=1)


def stream_ids(lm, prompt=PROMPT, count=20, **options):
    options = {"tokens_per_call": 4, "stop_token_ids": None, **options}
    return lm.generate_stream(prompt, max_new_tokens=count, **options)


# === Greedy ids ===
def test_greedy_ids_equal_one_step_a_token_across_ring_turns(lm):
    stream = stream_ids(lm)
    expected, memory = one_step_a_token(lm, PROMPT, 20)
    assert ids_of(stream).tolist() == [expected]
    assert len(set(expected)) >= 4  # or the test could not fail
    found = stream.memory
    assert found.pop("unread_ids").tolist() == [expected[-1:]]
    for name, value in memory.items():
        assert_close(found[name], value, tolerances.FLOAT32, name)


def test_tokens_of_a_call_change_nothing_but_its_size(lm):
    expected = ids_of(stream_ids(lm)).tolist()
    parts = list(stream_ids(lm, count=6, tokens_per_call=1))
    assert [part.shape for part in parts] == [(1, 1)] * 6
    assert np.concatenate(parts, axis=1).tolist() == [expected[0][:6]]
    parts = list(stream_ids(lm, count=6))
    assert [part.shape for part in parts] == [(1, 4), (1, 2)]


def test_rows_of_unequal_lengths_go_on_as_if_alone(lm):
    prompts = [PROMPT[:2], PROMPT]
    both = ids_of(stream_ids(lm, prompts))
    for row, prompt in enumerate(prompts):
        alone = ids_of(stream_ids(lm, np.array(prompt)))
        assert both[row].tolist() == alone[0].tolist()


def test_a_prompt_far_beyond_memory_and_one_call_is_read_whole(lm):
    prompt = np.random.default_rng(0).integers(0, 256, 150)
    expected, _ = one_step_a_token(lm, prompt, 4)
    assert ids_of(stream_ids(lm, prompt, 4)).tolist() == [expected]


def test_absolute_positions_keep_the_memory_itself(make_lm):
    lm = make_lm(position="absolute_sinusoidal", batch_size=None)
    draw(lm, seed=2)
    stream = stream_ids(lm, [3], 12, sampler="greedy")
    expected, memory = one_step_a_token(lm, [3], 12)
    assert ids_of(stream).tolist() == [expected]
    assert_close(
        stream.memory["states"], memory["states"], tolerances.FLOAT32, "states"
    )


def test_exactly_one_token_is_fed_for_each_that_is_drawn(make_lm, monkeypatch):
    lm = make_lm(num_layers=1)
    lm.compile(sampler="greedy", run_eagerly=True)
    fed = []
    embed = lm.backbone.embed
    monkeypatch.setattr(
        lm.backbone,
        "embed",
        lambda ids, *rest: fed.append(tuple(ids.shape)) or embed(ids, *rest),
    )
    ids_of(stream_ids(lm, [1], 6))
    assert set(fed) == {(1, 1)}
    if keras.backend.backend() != "jax":  # which traces even here
        assert len(fed) == 6


# === Ends, and what follows ===
def test_a_stop_token_ends_the_text_and_is_no_part_of_it(lm):
    free = ids_of(stream_ids(lm))[0].tolist()
    stop = free[6]
    ids = ids_of(stream_ids(lm, stop_token_ids=[stop]))[0].tolist()
    assert ids == free[: free.index(stop) + 1]
    text = "".join(
        lm.generate_stream(bytes(PROMPT).decode(), stop_token_ids=[stop])
    )
    assert text == bytes(ids[:-1]).decode(errors="replace")


def test_a_row_ends_alone(lm):
    free = ids_of(stream_ids(lm, [PROMPT, PROMPT[:3]]))
    stop = int(free[0, 2])
    ids = ids_of(stream_ids(lm, [PROMPT, PROMPT[:3]], stop_token_ids=[stop]))
    last = max(row.tolist().index(stop) if stop in row else 19 for row in free)
    assert ids.tolist() == free[:, : last + 1].tolist()


def test_a_dialogue_is_one_text(lm):
    stream = lm.generate_stream("The sea", max_new_tokens=5)
    first = "".join(stream)
    assert list(stream) == []
    stream.send_text(" né")
    second = "".join(stream)
    ids, _ = one_step_a_token(lm, b"The sea", 5)
    more, _ = one_step_a_token(lm, b"The sea" + bytes(ids) + " né".encode(), 5)
    whole = bytes(ids).decode(errors="replace")
    assert whole.startswith(first)
    assert (
        first + second
        == whole
        + bytes(more).decode(errors="replace")[
            : len(first + second) - len(whole)
        ]
    )


def test_a_saved_stream_goes_on_as_if_never_stopped(lm, tmp_path):
    whole = "".join(lm.generate_stream("né", max_new_tokens=24))
    for cut in range(1, 8):  # inside of characters as well
        stream = lm.generate_stream("né", max_new_tokens=cut)
        before = "".join(stream)
        save_memory(tmp_path / "memory", stream.memory, lm)
        stream = lm.generate_stream(
            memory=load_memory(tmp_path / "memory", lm), max_new_tokens=24 - cut
        )
        assert before + "".join(stream) == whole


def test_memory_of_a_step_is_continued(lm):
    past = np.array([PROMPT[:5]], "int32")
    _, memory = lm.step(past[:, :1], lm.initial_memory(1))
    for place in range(1, 5):
        _, memory = lm.step(past[:, place : place + 1], memory)
    split = ids_of(stream_ids(lm, PROMPT[5:], memory=memory))
    assert split.tolist() == ids_of(stream_ids(lm)).tolist()


def test_generate_continues_a_memory_as_the_stream_does(lm):
    memory = lm.initial_memory(2)
    past = np.array([list(b"The "), list(b"sea,")], "int32")
    for place in range(4):
        _, memory = lm.step(past[:, place : place + 1], memory)
    texts = lm.generate(["a", "bc"], max_length=9, memory=memory)
    assert texts != lm.generate(["a", "bc"], max_length=9)
    for row, prompt in enumerate(["a", "bc"]):
        alone = {key: value[row : row + 1] for key, value in memory.items()}
        ids = ids_of(
            stream_ids(lm, list(prompt.encode()), 9 - len(prompt), memory=alone)
        )
        said = bytes(ids[0].tolist()).decode(errors="replace")
        assert texts[row] == prompt + said
    with pytest.raises(ValueError, match="another batch size"):
        lm.generate("a", memory=memory)
    with pytest.raises(ValueError, match="Continue it with"):
        lm.generate("a", memory=stream_ids(lm, count=1).memory)


# === Samplers ===
@pytest.mark.parametrize("name", ["random", "top_k", "top_p"])
def test_a_seed_makes_a_stream_repeat_whatever_others_draw(lm, name):
    sampler = {
        "random": keras_hub.samplers.RandomSampler(temperature=2.0),
        "top_k": keras_hub.samplers.TopKSampler(k=8),
        "top_p": keras_hub.samplers.TopPSampler(p=0.9),
    }[name]

    def stream(seed):
        return stream_ids(lm, count=12, sampler=sampler, seed=seed)

    first, second = stream(3), stream(3)
    mixed = [np.concatenate([a, b]) for a, b in zip(first, second, strict=True)]
    mixed = np.concatenate(mixed, axis=1)
    assert mixed[0].tolist() == mixed[1].tolist()
    assert ids_of(stream(4)).tolist() != mixed[:1].tolist()
    if name == "random":  # without a seed, the sampler goes on
        drawn = [ids_of(stream(None)).tolist() for _ in range(2)]
        assert drawn[0] != drawn[1]


@pytest.mark.parametrize("name", ["beam", "contrastive"])
def test_a_search_over_texts_is_refused(lm, name):
    with pytest.raises(ValueError, match="Use `generate` with it"):
        lm.generate_stream("a", sampler=name)


# === Errors ===
def test_bad_input_is_told_with_the_way_out(lm, make_lm):
    _, memory = one_step_a_token(lm, [1], 1)
    for arguments, told in (
        ({"prompt": ""}, "nothing to continue"),
        ({"prompt": "", "memory": memory}, "nothing to continue"),
        ({"prompt": [[1], []]}, "nothing to continue"),
        ({"prompt": ["a", 1]}, "all be ids"),
        ({"prompt": [256]}, r"must lie in \[0, 256\)"),
        ({"prompt": "a", "tokens_per_call": 0}, "at least 1"),
        ({"prompt": "a", "max_new_tokens": -1}, "at least 0"),
        ({"prompt": "a", "memory_length": 0}, "at least 1"),
        ({"prompt": "a", "memory": memory, "memory_length": 9}, "Leave"),
        ({"prompt": [[1], [2]], "memory": memory}, "another batch size"),
    ):
        with pytest.raises(ValueError, match=told):
            lm.generate_stream(**arguments)
    without = make_lm(memory_length=0, batch_size=None)
    with pytest.raises(ValueError, match="Pass memory_length"):
        without.generate_stream([1])
    with pytest.raises(ValueError, match="preprocessor"):
        without.generate_stream("a", memory_length=4)


def test_the_memory_of_a_stream_is_no_memory_of_a_step(lm):
    memory = stream_ids(lm, count=1).memory
    with pytest.raises(ValueError, match="Continue it with `generate_stream`"):
        lm.step(np.array([[1]], "int32"), memory)


# === Long texts ===
def test_a_stream_grows_by_nothing(lm):
    stream = stream_ids(lm, count=None, tokens_per_call=1)

    def objects_after(calls):
        for _ in range(calls):
            next(stream)
        gc.collect()
        return len(gc.get_objects())

    objects_after(50)
    before = objects_after(10)
    assert objects_after(300) - before < 100  # of 300 tokens
    assert to_numpy(stream.memory["states"]).shape == (1, 1, MEMORY, 8)


PERIOD = [0, 0, 1, 0, 2, 2, 1, 3]  # what follows depends on more than one


def test_a_periodic_text_is_written_for_5000_tokens(make_lm):
    keras.utils.set_random_seed(1)
    lm = make_lm(
        vocabulary_size=4,
        num_layers=1,
        hidden_dim=16,
        intermediate_dim=32,
        memory_length=8,
        attention_window=9,  # in training as in the stream
        batch_size=None,
    )
    lm.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        sampler="greedy",
        weighted_metrics=None,
    )
    text = np.array(PERIOD * 9, "int32")
    batch = np.stack([text[shift : shift + 33] for shift in range(8)])
    inputs, targets = batch[:, :-1], batch[:, 1:]
    lm.fit(
        np.tile(inputs, (200, 1)),
        np.tile(targets, (200, 1)),
        batch_size=8,
        verbose=0,
    )
    prompt = PERIOD * 2
    stream = stream_ids(lm, prompt, 5000, tokens_per_call=50)
    written = ids_of(stream)[0]
    assert written.tolist() == (PERIOD * 625)
    assert to_numpy(stream.memory["states"]).shape == (1, 1, 8, 16)
    # `generate` writes the same, over a hundred turns of its ring.
    room = np.zeros((1, 1000), "int32")
    room[0, : len(prompt)] = prompt
    outputs = lm.generate(
        {"token_ids": room, "padding_mask": np.arange(1000)[None] < 16},
        stop_token_ids=None,
    )
    assert np.asarray(outputs["token_ids"]).tolist() == [PERIOD * 125]
