"""decode(encode(x)) == x for every text."""

import tensorflow as tf
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_txl.tokenizers import TransformerXLByteTokenizer

tokenizer = TransformerXLByteTokenizer()


@tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
def through_a_graph(texts):
    return tokenizer.detokenize(tokenizer(texts))


@settings(max_examples=200)
@given(st.text())
@example("\0")
@example("\0a\0\0")
@example("ＡBC İß ſ")  # full width, and letters that case folding changes
@example("👩‍👩‍👧‍👦🏽")
@example("e\u0301 \u00e9 \u1e9b\u0323")  # forms that normalising would join
@example("\r\n\u2028\u00a0\ufeff\u00ad\u200d")
@example("\U0010ffff\ufffd\ufffe")
def test_text_comes_back_from_its_ids(text):
    ids = tokenizer(text)
    assert ids.tolist() == list(text.encode())
    assert tokenizer.detokenize(ids) == text


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_batches_of_texts_come_back_from_their_ids(texts):
    assert tokenizer.detokenize(tokenizer(texts)) == texts
    graph = through_a_graph(tf.constant(texts)).numpy()
    assert [text.decode() for text in graph] == texts


@given(st.binary(min_size=1))
def test_ids_of_any_bytes_are_those_bytes(data):
    assert tokenizer(data).tolist() == list(data)
    assert tokenizer.detokenize(list(data)) == data.decode(errors="replace")
