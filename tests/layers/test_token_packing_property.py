"""Packing brings tokens to the front, in order, and back again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.tolerances import to_numpy

# Few sizes: every new one compiles anew on JAX.
DOCUMENTS = st.sampled_from([1, 6]).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(-1, 2), min_size=length, max_size=length),
        min_size=3,
        max_size=3,
    )
)


@given(documents=DOCUMENTS)
def test_valid_tokens_come_first_in_their_order(documents):
    from keras_txl.layers.token_packing import PackTokens

    documents = np.array(documents, "int32")
    ids = np.arange(documents.size, dtype="int32").reshape(documents.shape)
    packed_ids, packed, restore = map(to_numpy, PackTokens()(ids, documents))
    for row in range(len(documents)):
        valid = documents[row] >= 0
        count = valid.sum()
        assert packed_ids[row, :count].tolist() == ids[row][valid].tolist()
        assert packed[row, :count].tolist() == documents[row][valid].tolist()
        assert (packed[row, count:] == -1).all()
        assert packed_ids[row][restore[row]].tolist() == ids[row].tolist()


@given(documents=DOCUMENTS)
def test_unpacking_puts_outputs_back_and_zeros_on_padding(documents):
    from keras_txl.layers.token_packing import PackTokens
    from keras_txl.layers.token_packing import UnpackTokens

    documents = np.array(documents, "int32")
    ids = np.arange(documents.size, dtype="int32").reshape(documents.shape)
    packed_ids, _, restore = PackTokens()(ids, documents)
    hidden = to_numpy(packed_ids)[..., None].astype("float32") + 1
    restored = to_numpy(UnpackTokens()(hidden, restore, documents))
    expected = np.where(documents >= 0, ids + 1, 0)
    assert restored[..., 0].tolist() == expected.tolist()
