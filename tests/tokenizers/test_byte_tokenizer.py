"""TransformerXLByteTokenizer: ids, strings, configuration, presets."""

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from keras_txl.tokenizers import TransformerXLByteTokenizer

TEXTS = ["né\0!\0", "", "😀 e\u0301\r\n", "UPPER"]


@pytest.fixture
def tokenizer():
    return TransformerXLByteTokenizer()


def test_ids_are_utf8_bytes(tokenizer):
    ids = tokenizer("né\0")
    assert ids.dtype == np.int32
    assert ids.tolist() == [110, 195, 169, 0]
    assert tokenizer(["A", "né"]) == [[65], [110, 195, 169]]


def test_bytes_that_are_no_text_pass_through(tokenizer):
    assert tokenizer(b"\xff\x00a").tolist() == [255, 0, 97]


def test_special_ids_are_absent_and_padding_is_an_ordinary_byte(tokenizer):
    assert tokenizer.vocabulary_size() == 256
    assert tokenizer.start_token_id is None
    assert tokenizer.end_token_id is None
    assert tokenizer.pad_token_id == 0
    assert tokenizer.special_token_ids == []
    assert tokenizer.detokenize([0, 65, 0]) == "\0A\0"


def test_every_form_of_one_text_gives_a_python_string(tokenizer):
    forms = [
        [104, 105],
        (104, 105),
        np.array([104, 105]),
        [np.int64(104), np.int64(105)],
        keras.ops.convert_to_tensor([104, 105], "int32"),
        tf.constant([104, 105]),
    ]
    for form in forms:
        text = tokenizer.detokenize(form)
        assert type(text) is str
        assert text == "hi"


def test_every_form_of_a_batch_gives_a_list_of_python_strings(tokenizer):
    forms = [
        [[104, 105], [0, 106]],
        np.array([[104, 105], [0, 106]]),
        [np.array([104, 105]), np.array([0, 106])],
        keras.ops.convert_to_tensor([[104, 105], [0, 106]], "int32"),
        tf.ragged.constant([[104, 105], [0, 106]]),
    ]
    for form in forms:
        texts = tokenizer.detokenize(form)
        assert [type(text) for text in texts] == [str, str]
        assert texts == ["hi", "\0j"]


def test_texts_of_different_lengths_come_back(tokenizer):
    assert tokenizer.detokenize(tokenizer(TEXTS)) == TEXTS
    assert [tokenizer.detokenize(tokenizer(text)) for text in TEXTS] == TEXTS


def test_half_a_character_becomes_the_replacement(tokenizer):
    assert tokenizer.detokenize([110, 195]) == "n\ufffd"


@pytest.mark.parametrize("ids", [[65, 256], [65, -1], [65, 1.5]])
def test_ids_that_are_no_bytes_are_named(tokenizer, ids):
    with pytest.raises(ValueError, match=f"Received: {ids[1]} among 2 ids"):
        tokenizer.detokenize(ids)


def test_tf_data_gives_the_same_ids_and_texts(tokenizer):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    ids = [row.tolist() for row in dataset.map(tokenizer).as_numpy_iterator()]
    assert ids == [list(text.encode()) for text in TEXTS]
    texts = dataset.batch(len(TEXTS)).map(tokenizer).map(tokenizer.detokenize)
    (batch,) = texts.as_numpy_iterator()
    assert [text.decode() for text in batch] == TEXTS
    single = dataset.map(tokenizer).map(tokenizer.detokenize)
    assert [x.decode() for x in single.as_numpy_iterator()] == TEXTS


def test_sequence_length_pads_and_cuts(tokenizer):
    tokenizer = TransformerXLByteTokenizer(sequence_length=3)
    ids = keras.ops.convert_to_numpy(tokenizer(["A", "long"]))
    assert ids.tolist() == [[65, 0, 0], [108, 111, 110]]
    dataset = tf.data.Dataset.from_tensor_slices(["A", "long"])
    batch = dataset.batch(2).map(tokenizer)
    assert batch.element_spec.shape[1] == 3
    np.testing.assert_array_equal(next(batch.as_numpy_iterator()), ids)
    rows = list(dataset.map(tokenizer).as_numpy_iterator())
    np.testing.assert_array_equal(rows, ids)


@pytest.mark.parametrize("length", [None, 5])
def test_configuration_makes_the_same_tokenizer(length):
    tokenizer = TransformerXLByteTokenizer(sequence_length=length, name="mine")
    config = tokenizer.get_config()
    again = TransformerXLByteTokenizer.from_config(config)
    assert again.get_config() == config
    assert again.sequence_length == length
    assert again.name == "mine"
    serialized = keras.saving.serialize_keras_object(tokenizer)
    assert serialized["registered_name"] == (
        "keras_txl>TransformerXLByteTokenizer"
    )
    revived = keras.saving.deserialize_keras_object(serialized)
    assert type(revived) is TransformerXLByteTokenizer
    assert revived.get_config() == config


def test_lower_casing_cannot_be_switched_on():
    with pytest.raises(TypeError, match="lowercase"):
        TransformerXLByteTokenizer(lowercase=True)


def test_assets_are_saved_and_loaded_without_files(tokenizer, tmp_path):
    tokenizer.save_assets(tmp_path)
    assert list(tmp_path.iterdir()) == []
    tokenizer.load_assets(tmp_path)
    assert tokenizer.file_assets == []


def test_preset_brings_the_tokenizer_back(tokenizer, tmp_path, monkeypatch):
    # Any backbone makes the folder a preset; ours is tied in models.
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=256,
        num_layers=1,
        num_heads=1,
        hidden_dim=2,
        intermediate_dim=2,
        max_sequence_length=4,
    )
    backbone.save_to_preset(tmp_path)
    tokenizer.save_to_preset(tmp_path)
    monkeypatch.setattr(
        TransformerXLByteTokenizer, "backbone_cls", type(backbone)
    )
    again = TransformerXLByteTokenizer.from_preset(str(tmp_path))
    assert type(again) is TransformerXLByteTokenizer
    assert again.get_config() == tokenizer.get_config()
