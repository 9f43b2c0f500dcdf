"""What an ablation compares, and what its table says."""

import math

import pytest

from keras_txl.cli.ablation import POSITIONS
from keras_txl.cli.ablation import Variant
from keras_txl.cli.ablation import cells
from keras_txl.cli.ablation import evaluated_lengths
from keras_txl.cli.ablation import markdown
from keras_txl.cli.ablation import summarize
from keras_txl.cli.ablation import variants
from keras_txl.cli.arguments import DEFAULT_SIZE
from keras_txl.cli.encoded_texts import make_tokenizer
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.training_run import build_model
from keras_txl.cli.training_run import matched_size
from keras_txl.models.position_scheme import POSITIONS as KNOWN

pytestmark = pytest.mark.backend("tensorflow")


def run(seed, losses, trained=128):
    """Losses in bits at the attention lengths 64, 128, 192 and 320."""
    return {
        "position": "relative_sinusoidal",
        "recurrent": True,
        "seed": seed,
        "steps": 100,
        "parameters": 1234,
        "trained_attention_length": trained,
        "evaluations": [
            {"attention_length": length, "nats_per_token": bits * math.log(2)}
            for length, bits in zip((64, 128, 192, 320), losses, strict=True)
        ],
    }


def test_every_kind_of_positions_is_offered():
    assert set(POSITIONS) == set(KNOWN)


def test_each_kind_comes_with_recurrence_and_without():
    found = variants(["none", "absolute_learned"])
    assert len(found) == len({v.run_name(0) for v in found}) == 4
    sizes = [variant.size(DEFAULT_SIZE) for variant in found]
    assert [size.memory_length for size in sizes] == [64, 0, 64, 0]
    assert sizes[3].position == "absolute_learned"
    assert evaluated_lengths(DEFAULT_SIZE) == [0, 64, 128, 256]


def test_a_row_has_mean_spread_and_the_shortest_best_length():
    row = summarize(
        [run(0, [3.0, 2.0, 1.5, 1.50001]), run(1, [3.0, 2.2, 1.7, 1.70001])],
        "byte",
    )
    assert row["as_trained"] == {
        "mean": pytest.approx(2.1),
        "spread": pytest.approx(math.sqrt(0.02)),
    }
    assert row["best"]["mean"] == pytest.approx(1.6)
    assert row["best_attention_length"] == 192
    # A longer one that differs in no digit that is shown is not better.
    same = summarize([run(0, [1.50001, 1.5, 1.5, 1.5])], "byte")
    assert same["best_attention_length"] == 64
    assert cells(same)[4:] == ["1.5000 (128)", "1.5000", "64"]
    assert "| 2.1000 ± 0.1414 (128) | 1.6000 ± 0.1414 | 192 |" in markdown(
        [row], {"corpus": "a text"}, "byte"
    )


def test_tokens_have_a_perplexity():
    row = summarize([run(0, [3.0, 2.0, 1.0, 1.0])], "token")
    assert row["as_trained"]["mean"] == pytest.approx(4.0)
    assert "Perplexity on held-out" in markdown([row], {}, "token")


def test_models_have_as_many_parameters_within_a_unit():
    tokenizer = make_tokenizer(None)
    parameters = {
        position: count_parameters(
            build_model(
                matched_size(
                    Variant(position, False).size(DEFAULT_SIZE),
                    DEFAULT_SIZE,
                    tokenizer,
                ),
                0,
                tokenizer,
            )
        )
        for position in ("relative_sinusoidal", "none", "absolute_learned")
    }
    unit = DEFAULT_SIZE.num_layers * (2 * DEFAULT_SIZE.hidden_dim + 1)
    expected = parameters.pop("relative_sinusoidal")
    for found in parameters.values():
        assert abs(found - expected) <= unit / 2
