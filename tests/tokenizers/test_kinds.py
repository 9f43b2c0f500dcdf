"""What every kind of tokenizer does: ids, texts, presets, graphs."""

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.tokenizers import load_tokenizer
from keras_txl.tokenizers import train_tokenizer

TEXTS = [
    "the ship waits .",
    "",
    "né 😀 e\u0301",
    "a storm\nthe ship\n",
    "12345",
]


def test_texts_of_the_corpus_come_back(tokenizer):
    assert tokenizer.detokenize(tokenizer(TEXTS)) == TEXTS
    for text in TEXTS:
        ids = tokenizer(text)
        assert isinstance(np.asarray(ids), np.ndarray)
        assert np.asarray(ids).dtype == np.int32
        assert tokenizer.detokenize(ids) == text
        assert max([0, *np.asarray(ids)]) < tokenizer.vocabulary_size()


def test_ids_in_tf_data_are_the_same(tokenizer):
    def there_and_back(text):
        ids = tokenizer(text)
        return ids, tokenizer.detokenize(ids)

    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    rows = list(dataset.map(there_and_back).as_numpy_iterator())
    expected = [np.asarray(tokenizer(text)).tolist() for text in TEXTS]
    assert [ids.tolist() for ids, _ in rows] == expected
    assert [text.decode() for _, text in rows] == TEXTS
    (batch,) = dataset.batch(9).map(tokenizer).take(1)
    assert batch.to_list() == tokenizer(TEXTS)


def test_every_form_of_text_is_read(tokenizer):
    expected = tokenizer(["né", "a"])
    for form in (
        ("né", "a"),
        ["né".encode(), b"a"],
        np.array(["né", "a"]),
        tf.constant(["né", "a"]),
    ):
        assert tokenizer.tokenize(form) == expected


def test_every_form_of_ids_is_read(tokenizer):
    ids = np.asarray(tokenizer("the ship"))
    for form in (
        ids.tolist(),
        tuple(ids.tolist()),
        list(ids),
        ids,
        keras.ops.convert_to_tensor(ids),
        tf.constant(ids),
    ):
        assert tokenizer.detokenize(form) == "the ship"
    assert tokenizer.detokenize(np.stack([ids, ids])) == ["the ship"] * 2


def test_there_is_no_start_or_end_token_and_padding_is_told_by_a_mask(
    tokenizer,
):
    assert tokenizer.start_token_id is None
    assert tokenizer.end_token_id is None
    assert tokenizer.pad_token_id == 0
    assert tokenizer.special_token_ids == []


def test_folder_gives_the_same_tokenizer(tokenizer, tmp_path):
    tokenizer.save_to_preset(str(tmp_path / "folder"))
    again = load_tokenizer(tmp_path / "folder")
    assert type(again) is type(tokenizer)
    assert again.fingerprint == tokenizer.fingerprint
    assert again(TEXTS) == tokenizer(TEXTS)
    assert not list(tmp_path.rglob("*.pkl"))


def test_fingerprint_tells_tokenizers_apart(tokenizer, kind):
    if kind == "byte":
        other = train_tokenizer("character", ["ab"])
    else:
        size = {"byte-pair": 270, "sentence-piece": 290}.get(kind)
        text = ["another text , and another\n" * 20]
        other = train_tokenizer(kind, text, vocabulary_size=size)
    assert other.fingerprint != tokenizer.fingerprint


def test_preset_brings_the_tokenizer_of_its_model(tokenizer, tmp_path):
    backbone = TransformerXLBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=1,
        hidden_dim=4,
        intermediate_dim=4,
        memory_length=4,
    )
    preprocessor = TransformerXLCausalLMPreprocessor(tokenizer)
    lm = TransformerXLCausalLM(backbone, preprocessor)
    lm.save_to_preset(str(tmp_path))
    loaded = TransformerXLCausalLM.from_preset(str(tmp_path))
    found = [
        loaded.preprocessor.tokenizer,
        keras_hub.tokenizers.Tokenizer.from_preset(str(tmp_path)),
        load_tokenizer(tmp_path),
    ]
    for again in found:
        assert type(again) is type(tokenizer)
        assert again(TEXTS) == tokenizer(TEXTS)


@pytest.mark.backend("tensorflow")
def test_core_operations_are_all_that_a_signature_needs(
    tokenizer, kind, tmp_path
):
    if kind in ("byte-pair", "sentence-piece"):
        return  # those need TensorFlow Text, as documented
    module = tf.Module()
    module.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
    def there_and_back(texts):
        ids = tokenizer.tokenize(texts)
        return {"ids": ids.to_tensor(-1), "texts": tokenizer.detokenize(ids)}

    module.there_and_back = there_and_back
    graph = there_and_back.get_concrete_function().graph
    operations = {node.op for node in graph.as_graph_def().node}
    assert not any("Text>" in op or "Sentence" in op for op in operations)
    tf.saved_model.save(
        module, str(tmp_path), {"serving_default": there_and_back}
    )
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    found = served(tf.constant(TEXTS))
    assert [text.decode() for text in found["texts"].numpy()] == TEXTS
    ids = [[i for i in row if i >= 0] for row in found["ids"].numpy().tolist()]
    assert ids == tokenizer(TEXTS)


@pytest.mark.parametrize("damage", ["missing", "cut", "assets"])
def test_damaged_folder_is_named(damage, tmp_path):
    tokenizer = train_tokenizer("word", ["a b\n"])
    tokenizer.save_to_preset(str(tmp_path))
    if damage == "missing":
        (tmp_path / "tokenizer.json").unlink()
        with pytest.raises(FileNotFoundError, match="keras-txl tokenizer"):
            load_tokenizer(tmp_path)
        return
    name = "tokenizer.json"
    if damage == "assets":
        name = "assets/tokenizer/vocabulary.json"
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="must be whole"):
        load_tokenizer(tmp_path)
