"""The oracle of the parts and the oracle of the whole say the same."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles import attention_oracle
from tests.oracles import golden
from tests.oracles.model_oracle import run_model
from tests.tolerances import assert_close

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


@pytest.mark.parametrize("name", ["hf_default", "hf_same_length_clamp"])
def test_scores_and_mask_repeat_the_golden_attention(name):
    model = golden.load_golden(name)
    memory_length = model.memory_length
    states = model.first_states
    for segment in model.segments:
        inputs = run_model(
            model.config,
            model.weights,
            segment.inputs,
            None,
            golden.to_memory(states, memory_length),
        ).layer_inputs
        for layer in range(model.config.num_layers):
            context = np.concatenate(
                [states[:, layer], inputs[:, layer]], axis=1
            )
            assert_close(
                _probabilities(model, layer, context, segment.inputs.shape[1]),
                segment.attentions[:, layer],
                tolerances.FLOAT32,
                f"{name}, attention of layer {layer}",
            )
        states = segment.states


def _probabilities(model, layer, context, segment_length):
    def w(name):
        return model.weights[f"layer_{layer}.{name}"].astype(np.float64)

    batch_size, key_length, hidden_dim = context.shape
    memory_length = key_length - segment_length
    distances = np.arange(key_length)
    if model.config.clamp_length is not None:
        distances = np.minimum(distances, model.config.clamp_length)
    encoding = attention_oracle.distance_encoding(distances, hidden_dim)
    relative_key = np.einsum("rd,dnh->rnh", encoding, w("relative_key"))
    mask = attention_oracle.attention_mask(
        np.zeros((batch_size, segment_length), dtype=int),
        [memory_length] * batch_size,
        [0] * batch_size,
        memory_length,
        model.config.attention_window,
    )
    rows = []
    for row in range(batch_size):
        scores = attention_oracle.relative_attention_scores(
            np.einsum("td,dnh->tnh", context[row, memory_length:], w("query")),
            np.einsum("sd,dnh->snh", context[row], w("key")),
            relative_key,
            w("content_bias"),
            w("position_bias"),
        )
        mass = np.where(mask[row], np.exp(np.where(mask[row], scores, 0)), 0)
        rows.append(mass / mass.sum(axis=-1, keepdims=True))
    return np.stack(rows)


def test_shift_of_products_by_distance_gives_terms_b_and_d():
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(3, 2, 4)), rng.normal(size=(8, 2, 4))
    relative_key = rng.normal(size=(8, 2, 4))
    u, v = rng.normal(size=(2, 2, 4))
    terms = attention_oracle.score_terms(query, key, relative_key, u, v)
    # Column c of a table ordered from the largest distance to 0.
    by_distance = np.einsum("tnh,rnh->ntr", query + v, relative_key[::-1])
    shifted = attention_oracle.relative_shift(by_distance)
    np.testing.assert_allclose(shifted, terms["b"] + terms["d"], atol=1e-12)


def test_memory_of_the_parts_is_memory_of_the_whole():
    rng = np.random.default_rng(1)
    model = golden.load_golden("kim_memshort")
    shape = (2, 2, model.memory_length, 16)
    memory = {
        "states": rng.normal(size=shape),
        "length": np.array([2, 3]),
        "document": np.array([4, 0]),
    }
    memory["states"][0, :, :-2] = 0
    documents = [np.array([[4, -1, 4], [-1, -1, -1]])]
    documents.append(np.array([[-1, 5, -1], [0, 1, 0]]))
    for document_ids in documents:
        token_ids = rng.integers(0, 60, size=(2, 3))
        result = run_model(
            model.config, model.weights, token_ids, document_ids, memory
        )
        for layer in range(2):
            states, length, document = attention_oracle.update_memory(
                memory["states"][:, layer],
                memory["length"],
                memory["document"],
                result.layer_inputs[:, layer],
                document_ids,
            )
            assert_close(
                states,
                result.memory["states"][:, layer],
                tolerances.FLOAT64,
                "states",
            )
            assert list(length) == list(result.memory["length"])
            assert list(document) == list(result.memory["document"])
        memory = result.memory


@pytest.mark.parametrize("memory_length, counts", [(6, 7), (3, 4), (0, 1)])
def test_window_shows_one_key_more_than_memory_has_slots(memory_length, counts):
    # Four queries over M = 6 slots of which `memory_length` are filled.
    visible = attention_oracle.attention_mask(
        np.zeros((1, 4), dtype=int),
        [memory_length],
        [0],
        6,
        window="memory_length+1",
    )
    expected = [min(7, counts + i) for i in range(4)]
    assert list(visible[0].sum(axis=-1)) == expected


def test_equal_ids_do_not_reconnect_across_another_document():
    visible = attention_oracle.attention_mask(
        np.array([[1, 2, -1, 1]]), [1], [1], 1
    )
    expected = np.array(
        [
            [True, True, False, False, False],
            [False, False, True, False, False],
            [False, False, False, False, False],
            [False, False, False, False, True],
        ]
    )
    assert np.array_equal(visible[0], expected)
