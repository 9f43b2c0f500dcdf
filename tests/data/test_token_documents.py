"""What may be a document, and what the message says if it is none."""

import numpy as np
import pytest
from keras import ops

from keras_txl.data.token_documents import as_arrays


@pytest.mark.parametrize(
    "documents",
    [
        [1, 2, 3],
        (1, 2, 3),
        range(1, 4),
        np.array([1, 2, 3], "uint8"),
        [np.array([1, 2, 3])],
        [[1, 2, 3]],
        iter([[1, 2, 3]]),
    ],
)
def test_every_form_of_one_document_is_read(documents):
    (array,) = as_arrays(documents)
    assert array.tolist() == [1, 2, 3]


def test_a_backend_tensor_is_read():
    (array,) = as_arrays(ops.convert_to_tensor([1, 2, 3], "int32"))
    assert array.tolist() == [1, 2, 3]


@pytest.mark.parametrize("documents", ["text", b"bytes", {"a": [1]}, 3, None])
def test_text_and_other_things_name_the_tokenizer(documents):
    with pytest.raises(TypeError, match="tokenizer"):
        as_arrays(documents)


@pytest.mark.parametrize(
    "documents", [[0.5, 1.0], ["text"], [b"bytes"], [True, False], [object()]]
)
def test_documents_without_integers_are_refused(documents):
    with pytest.raises(TypeError, match="must hold integer token ids"):
        as_arrays(documents)


def test_a_matrix_is_refused_with_both_ways_out():
    with pytest.raises(ValueError, match=r"shape \(2, 3\)") as caught:
        as_arrays(np.zeros((2, 3), int))
    assert "list(array)" in str(caught.value)
    assert "reshape(-1)" in str(caught.value)


@pytest.mark.parametrize("wrong", [[3, -1], [3, 2**31]])
def test_ids_outside_of_int32_name_the_document(wrong):
    with pytest.raises(ValueError, match="document 1 with ids from"):
        as_arrays([[1, 2], wrong])
