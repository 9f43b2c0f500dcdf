"""Memory kept in the layers against one NumPy memory for each bank."""

import numpy as np
import pytest

from tests import tolerances
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import empty_memory
from tests.oracles.model_oracle import run_model
from tests.oracles.weights import oracle_weights
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

STREAMS = 3
LENGTH = 4


def take(memory, rows):
    return {key: value[:rows] for key, value in memory.items()}


def put(memory, rows, new):
    """Rows that were absent keep what they have."""
    return {
        key: np.concatenate([new[key], memory[key][rows:]]) for key in memory
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"memory_length": 6},
        {
            "memory_length": 3,
            "eval_memory_length": 9,
            "attention_logit_cap": 0.7,
            "memory_layer_norm": True,
        },
        {"memory_length": 5, "eval_memory_length": 0},
        {
            "memory_length": 4,
            "attention_window": "memory_length+1",
            "eval_attention_window": 3,
            "clamp_length": None,
            "eval_clamp_length": 2,
            "normalize_first": True,
        },
    ],
    ids=["same", "longer_in_evaluation", "none_in_evaluation", "settings"],
)
def test_calls_of_both_banks_and_short_batches_equal_the_oracle(arguments):
    from keras_txl.models import TransformerXLBackbone
    from keras_txl.models import TransformerXLCausalLM

    lm = TransformerXLCausalLM(
        TransformerXLBackbone(
            vocabulary_size=9,
            num_layers=2,
            num_heads=2,
            hidden_dim=6,
            intermediate_dim=8,
            batch_size=STREAMS,
            dropout=0.0,
            **arguments,
        )
    )
    randomize(lm, seed=4)
    weights = oracle_weights(lm)
    first = arguments.get("normalize_first", False)

    def setting(name, training):
        changed = arguments.get(f"eval_{name}", arguments.get(name))
        return arguments.get(name) if training else changed

    def config(training):
        return OracleConfig(
            num_layers=2,
            attention_window=setting("attention_window", training),
            clamp_length=setting("clamp_length", training),
            normalize_first=first,
            attention_logit_cap=arguments.get("attention_logit_cap"),
            memory_layer_norm=arguments.get("memory_layer_norm", False),
        )

    memories = {
        training: empty_memory(
            STREAMS, 2, setting("memory_length", training), 6
        )
        for training in (True, False)
    }
    rng = np.random.default_rng(4)
    calls = [
        (training, rows)
        for training, rows in zip(
            [True, True, False, True, False, False, True, False],
            [3, 3, 3, 2, 2, 3, 3, 3],
            strict=True,
        )
    ]
    for number, (training, rows) in enumerate(calls):
        token_ids = rng.integers(0, 9, size=(rows, LENGTH)).astype("int32")
        document_ids = np.zeros((rows, LENGTH), "int32")
        if number in (3, 5):
            document_ids[0, 1] = -1
            document_ids[1, 2:] = 1
        expected = run_model(
            config(training),
            weights,
            token_ids,
            document_ids,
            take(memories[training], rows),
        )
        memories[training] = put(memories[training], rows, expected.memory)
        inputs = {"token_ids": token_ids, "document_ids": document_ids}
        logits = lm(inputs, training=training)
        valid = document_ids >= 0
        assert_close(
            to_numpy(logits)[valid],
            expected.logits[valid],
            tolerances.PRE_NORM_STATES if first else tolerances.FLOAT32,
            f"call {number} (training={training}, {rows} rows): logits",
        )
        assert not to_numpy(logits)[~valid].any()
