"""The attention mask against a walk back from every query."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from tests.oracles import attention_oracle
from tests.tolerances import to_numpy


def library_mask(document_ids, length, document, slots, window, attend_empty):
    """What the layers build together, undone to the places of the tokens."""
    from keras_txl.layers.attention_mask import SegmentAttentionMask
    from keras_txl.layers.token_packing import PackTokens

    batch, segment = document_ids.shape
    packed_ids, packed, restore = PackTokens()(
        np.zeros_like(document_ids), document_ids
    )
    # Memory of another document was dropped when memory was joined.
    usable = [
        attention_oracle.usable_length(document_ids[row], *pair)
        for row, pair in enumerate(zip(length, document, strict=True))
    ]
    layer = SegmentAttentionMask(window, attend_empty_memory=attend_empty)
    mask = layer(
        np.zeros((batch, slots + segment, 1), "float32"),
        packed,
        np.array(usable, "int32"),
    )
    mask = np.broadcast_to(
        to_numpy(mask)[:, 0], (batch, segment, slots + segment)
    )
    places = to_numpy(restore)
    rows = []
    for row in range(batch):
        keys = list(range(slots)) + list(slots + places[row])
        rows.append(mask[row][places[row]][:, keys])
    return np.stack(rows)


def check(document_ids, length, document, slots, window, attend_empty):
    expected = attention_oracle.attention_mask(
        document_ids, length, document, slots, window, attend_empty
    )
    actual = library_mask(
        document_ids, length, document, slots, window, attend_empty
    )
    assert np.array_equal(actual, expected), (
        f"documents {document_ids.tolist()}, memory {length} of {slots} in "
        f"{document}, window {window}: {np.argwhere(actual != expected)}"
    )


@pytest.mark.parametrize("window", [None, 1, 3, 7])
@pytest.mark.parametrize("slots", [0, 1, 6])
def test_plain_rows(slots, window):
    for valid in {0, slots // 2, slots}:
        check(
            np.zeros((2, 4), "int32"),
            [valid, slots],
            [0 if valid else -1, 0 if slots else -1],
            slots,
            window,
            False,
        )


@given(
    documents=st.lists(
        st.lists(st.integers(-1, 2), min_size=6, max_size=6),
        min_size=3,
        max_size=3,
    ),
    slots=st.sampled_from([0, 1, 4]),
    fill=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2)),
        min_size=3,
        max_size=3,
    ),
    window=st.sampled_from([None, 1, 2, 5, "memory_length", "memory_length+1"]),
    attend_empty=st.booleans(),
)
def test_documents_and_padding_anywhere(
    documents, slots, fill, window, attend_empty
):
    length = [min(slots, valid) for valid, _ in fill[: len(documents)]]
    document = [
        current if valid else -1
        for valid, (_, current) in zip(length, fill, strict=False)
    ]
    check(
        np.array(documents, "int32"),
        length,
        document,
        slots,
        window,
        attend_empty,
    )


@pytest.mark.parametrize(
    "window, valid, counts",
    [
        ("memory_length+1", 6, [7, 7, 7, 7]),
        ("memory_length+1", 3, [4, 5, 6, 7]),
        ("memory_length+1", 0, [1, 2, 3, 4]),
        ("memory_length", 6, [6, 6, 6, 6]),
        ("memory_length", 3, [4, 5, 6, 6]),
        ("memory_length", 0, [1, 2, 3, 4]),
    ],
)
def test_published_windows_over_six_slots(window, valid, counts):
    from keras_txl.layers.attention_mask import SegmentAttentionMask

    mask = SegmentAttentionMask(window)(
        ops.zeros((1, 10, 1)),
        np.zeros((1, 4), "int32"),
        np.array([valid], "int32"),
    )
    assert to_numpy(mask)[0, 0].sum(axis=-1).tolist() == counts
