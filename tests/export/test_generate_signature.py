"""Generation inside the graph: each row by its own settings and seed."""

import numpy as np
import pytest
import tensorflow as tf

from keras_txl.export.graph_sampling import draw_rows
from keras_txl.export.graph_sampling import row_uniforms

pytestmark = pytest.mark.backend("tensorflow")

PROMPT = np.array([[5, 9, 200, 31, 7, 7, 66, 1, 2, 3]], "int32")


@pytest.fixture(scope="module")
def signatures(exported):
    _, folder = exported
    return tf.saved_model.load(str(folder)).signatures


def request(prompts, **settings):
    """A request of rows; prompts of unequal lengths are padded with junk."""
    rows = len(prompts)
    longest = max(len(prompt) for prompt in prompts)
    token_ids = np.full((rows, longest), 9999, "int32")
    for row, prompt in zip(token_ids, prompts, strict=True):
        row[: len(prompt)] = prompt
    values = {
        "max_new_tokens": 6,
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "seed": 0,
        **settings,
    }
    return {
        "token_ids": token_ids,
        "token_length": np.array([len(p) for p in prompts], "int32"),
        **{
            name: np.broadcast_to(
                np.array(
                    value,
                    "float32" if name in ("temperature", "top_p") else "int32",
                ),
                (rows,),
            )
            for name, value in values.items()
        },
    }


def run(signatures, inputs, name="generate"):
    outputs = signatures[name](
        **{key: tf.constant(value) for key, value in inputs.items()}
    )
    rows = zip(
        outputs["token_ids"].numpy(),
        outputs["token_length"].numpy(),
        strict=True,
    )
    return [row[:length].tolist() for row, length in rows]


def test_greedy_text_is_the_models(exported, signatures):
    lm, _ = exported
    stream = lm.generate_stream(PROMPT, sampler="greedy", max_new_tokens=20)
    expected = np.concatenate(list(stream), axis=1)[0].tolist()
    assert len(set(expected)) > 3
    (row,) = run(
        signatures, request(PROMPT, temperature=0.0, max_new_tokens=20)
    )
    assert row == PROMPT[0].tolist() + expected


def test_rows_together_are_the_rows_alone(signatures):
    prompts = [[3], PROMPT[0].tolist(), [8, 9, 10], [3]]
    settings = {
        "max_new_tokens": [5, 9, 0, 5],
        "temperature": [1.0, 0.7, 1.0, 1.0],
        "top_k": [0, 5, 0, 0],
        "top_p": [0.9, 1.0, 0.5, 0.9],
        "seed": [1, 2, 3, 4],
    }
    together = run(signatures, request(prompts, **settings))
    for index, prompt in enumerate(prompts):
        own = {name: values[index] for name, values in settings.items()}
        assert run(signatures, request([prompt], **own)) == [together[index]]
    assert [len(row) for row in together] == [6, 19, 3, 6]
    assert together[0] != together[3]  # only the seed differs
    assert run(signatures, request(prompts, **settings)) == together


def test_draws_follow_the_distribution():
    logits = np.array([2.0, 0.5, 1.0, -1.0, 0.0], "float32")
    count = 4000
    seeds = tf.range(count) - 7

    def shares(temperature=1.0, top_k=0, top_p=1.0):
        tokens = draw_rows(
            tf.tile(logits[None], [count, 1]),
            row_uniforms(seeds, tf.constant(3)),
            tf.fill([count], temperature),
            tf.fill([count], top_k),
            tf.fill([count], top_p),
        )
        return np.bincount(tokens.numpy(), minlength=5) / count

    def softmax(values):
        exponentials = np.exp(values - values.max())
        return exponentials / exponentials.sum()

    kept = softmax(logits)
    np.testing.assert_allclose(shares(), kept, atol=0.03)
    np.testing.assert_allclose(shares(0.5), softmax(logits / 0.5), atol=0.03)
    np.testing.assert_array_equal(shares(0.0), [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(shares(top_k=1), [1, 0, 0, 0, 0])
    best = np.where([1, 0, 1, 0, 0], kept, 0)
    np.testing.assert_allclose(shares(top_k=2), best / best.sum(), atol=0.03)
    # 0.57 alone is not 0.6: the token that reaches it counts as well.
    assert 0.5 < kept[0] < 0.6 < kept[0] + kept[2]
    np.testing.assert_allclose(shares(top_p=0.6), best / best.sum(), atol=0.03)
    np.testing.assert_array_equal(shares(top_p=0.4), [1, 0, 0, 0, 0])


def test_numbers_of_neighbouring_seeds_and_steps_are_unrelated():
    numbers = np.array(
        [row_uniforms(tf.range(100), tf.constant(i)) for i in range(100)]
    )
    assert 0 <= numbers.min() < 1e-3 and 1 - 1e-3 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    assert np.unique(numbers).size > 9900
    for one, other in (
        (numbers[1:], numbers[:-1]),
        (numbers[:, 1:], numbers[:, :-1]),
    ):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.04


def test_texts_are_continued_as_the_model_does(exported, signatures):
    lm, _ = exported
    prompt = "né"
    stream = lm.generate_stream(prompt, sampler="greedy", max_new_tokens=8)
    expected = prompt + "".join(stream)
    inputs = request([[0]] * 2, temperature=0.0, max_new_tokens=[8, 0])
    del inputs["token_ids"], inputs["token_length"]
    texts = signatures["generate_text"](
        prompts=tf.constant([prompt, "a\0b"]),
        **{name: tf.constant(value) for name, value in inputs.items()},
    )["texts"].numpy()
    # The stream keeps back the beginning of a character.
    assert texts[0].decode().rstrip("\ufffd") == expected.rstrip("\ufffd")
    assert texts[1] == b"a\0b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_length": [0]}, "`token_length` must be from"),
        ({"token_length": [11]}, "`token_length` must be from"),
        ({"token_ids": PROMPT + 250}, "`token_ids` must be from"),
        ({"max_new_tokens": [-1]}, "`max_new_tokens` must be from"),
        ({"temperature": [-0.5]}, "`temperature` must be from"),
        ({"temperature": [np.nan]}, "`temperature` must be from"),
        ({"top_k": [-2]}, "`top_k` must be from"),
        ({"top_p": [0.0]}, "`top_p` must be from"),
        ({"top_p": [1.5]}, "`top_p` must be from"),
        ({"seed": [1, 2]}, "`seed` must have as many rows"),
        ({"token_ids": PROMPT[:0]}, "must"),
    ],
)
def test_bad_requests_are_refused_in_words(signatures, change, message):
    good = request(PROMPT)
    bad = {
        name: np.asarray(change.get(name, value), value.dtype)
        for name, value in good.items()
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(signatures, bad)
    assert len(run(signatures, good)[0]) == 16


def test_text_that_is_no_utf8_is_refused(signatures):
    inputs = request([[0]])
    del inputs["token_ids"], inputs["token_length"]
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    for prompt, message in ((b"\xff", "UTF-8"), (b"", "at least one token")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            signatures["generate_text"](prompts=tf.constant([prompt]), **inputs)
