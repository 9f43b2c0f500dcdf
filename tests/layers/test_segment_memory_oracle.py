"""What memory holds against a list of tokens per row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import tolerances
from tests.oracles import attention_oracle
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

WIDTH = 3


def pack(values, document_ids):
    """Valid tokens of each row first, by a loop."""
    packed = np.zeros_like(values)
    for row, documents in enumerate(document_ids):
        valid = [t for t, current in enumerate(documents) if current >= 0]
        rest = [t for t, current in enumerate(documents) if current < 0]
        packed[row] = values[row][valid + rest]
    return packed


@st.composite
def streams(draw):
    """Rows, slots and a few segments of documents with padding anywhere."""
    rows = 2  # few sizes: every new one compiles anew on JAX
    slots = draw(st.sampled_from([0, 1, 4]))
    lengths = draw(st.lists(st.sampled_from([1, 5]), min_size=1, max_size=4))
    segments = [
        np.array(
            [
                [draw(st.integers(-1, 1)) for _ in range(length)]
                for _ in range(rows)
            ],
            "int32",
        )
        for length in lengths
    ]
    return rows, slots, segments, draw(st.integers(0, 2**16))


@given(stream=streams(), training=st.booleans())
def test_layer_remembers_the_last_tokens_of_the_newest_document(
    stream, training
):
    from keras_txl.layers import SegmentMemory

    rows, slots, segments, seed = stream
    rng = np.random.default_rng(seed)
    layer = SegmentMemory(slots, batch_size=rows)
    states = np.zeros((rows, slots, WIDTH))
    length, document = np.zeros(rows, int), np.full(rows, -1)
    for document_ids in segments:
        hidden = rng.normal(size=(*document_ids.shape, WIDTH))
        hidden = hidden.astype("float32")
        context, recalled = layer(
            pack(hidden, document_ids),
            pack(document_ids, document_ids),
            training=training,
        )
        usable = [
            attention_oracle.usable_length(*arguments)
            for arguments in zip(document_ids, length, document, strict=True)
        ]
        if slots:
            assert to_numpy(recalled).tolist() == usable
        assert_close(
            to_numpy(context)[:, slots:],
            pack(hidden, document_ids),
            tolerances.EXACT,
            "the segment behind the memory",
        )
        for row, valid in enumerate(usable):
            assert_close(
                to_numpy(context)[row, slots - valid : slots],
                states[row, slots - valid :],
                tolerances.EXACT,
                "the memory before the segment",
            )
        states, length, document = attention_oracle.update_memory(
            states, length, document, hidden, document_ids
        )
        if slots:
            bank = layer.bank(training)
            for variable, expected in zip(
                bank, (states, length, document), strict=True
            ):
                assert_close(
                    variable, expected, tolerances.EXACT, variable.name
                )
    if slots:
        for variable in layer.bank(not training)[:2]:
            assert not to_numpy(variable).any()


@given(stream=streams())
def test_functions_on_values_do_the_same(stream):
    from keras import ops

    from keras_txl.layers.segment_memory import advance
    from keras_txl.layers.segment_memory import join_memory
    from keras_txl.layers.segment_memory import recall
    from keras_txl.layers.segment_memory import update_memory

    rows, slots, segments, seed = stream
    rng = np.random.default_rng(seed)
    states = np.zeros((rows, slots, WIDTH), "float32")
    length = np.zeros(rows, "int32")
    document = np.full(rows, -1, "int32")
    for document_ids in segments:
        hidden = rng.normal(size=(*document_ids.shape, WIDTH))
        hidden = hidden.astype("float32")
        packed = pack(document_ids, document_ids)
        packed, *memory, joined = map(
            ops.convert_to_tensor,
            (packed, length, document, states, pack(hidden, document_ids)),
        )
        context = join_memory(memory[2], joined)
        usable = recall(*memory[:2], packed)
        count, new_length, new_document = advance(
            usable, memory[1], packed, slots
        )
        new_states = update_memory(context, count, new_length, slots)
        states, length, document = (
            array.astype(like.dtype)
            for array, like in zip(
                attention_oracle.update_memory(
                    states, length, document, hidden, document_ids
                ),
                (states, length, document),
                strict=True,
            )
        )
        assert to_numpy(count).tolist() == (document_ids >= 0).sum(1).tolist()
        assert_close(new_states, states, tolerances.EXACT, "states")
        assert_close(new_length, length, tolerances.EXACT, "length")
        assert_close(new_document, document, tolerances.EXACT, "document")


@pytest.mark.parametrize("segment_length", [1, 4, 8, 13])
def test_memory_is_the_tail_of_the_whole_history(segment_length):
    from keras_txl.layers import SegmentMemory

    layer = SegmentMemory(6, batch_size=1)
    history = np.random.default_rng(0).normal(size=(1, 39, WIDTH))
    history = history.astype("float32")
    for start in range(0, 39, segment_length):
        end = min(39, start + segment_length)
        layer(history[:, start:end])
        states, length, _ = map(to_numpy, layer.bank(False))
        valid = min(6, end)
        assert length.tolist() == [valid]
        assert_close(
            states[:, 6 - valid :],
            history[:, end - valid : end],
            tolerances.EXACT,
            f"after {end} tokens",
        )


def test_join_lets_no_gradient_into_memory():
    from keras import ops

    from keras_txl.layers.segment_memory import join_memory
    from keras_txl.layers.segment_memory import update_memory
    from tests.oracles.gradients import gradient_at

    hidden = ops.ones((1, 2, WIDTH))
    states = ops.ones((1, 2, WIDTH))
    into_memory = gradient_at(
        lambda x: ops.sum(join_memory(x, hidden) ** 2), to_numpy(states)
    )
    into_segment = gradient_at(
        lambda x: ops.sum(join_memory(states, x) ** 2), to_numpy(hidden)
    )
    assert not into_memory.any()
    assert into_segment.all()
    count = ops.convert_to_tensor(np.array([2], "int32"))
    out_of_memory = gradient_at(
        lambda x: ops.sum(update_memory(x, count, count, 2)),
        np.ones((1, 4, WIDTH), "float32"),
    )
    assert not out_of_memory.any()
