"""Where the text signature lives: beside the others, or apart if the
tokenizer is made of another library's operations."""

import re

import pytest

from keras_txl.export import export_saved_model
from keras_txl.export import verify_manifest
from keras_txl.export.serving import LocalSavedModel
from keras_txl.export.serving import generate_text
from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.tokenizers import TransformerXLCharacterTokenizer
from keras_txl.tokenizers import TransformerXLWordTokenizer
from keras_txl.tokenizers import train_tokenizer

pytestmark = pytest.mark.backend("tensorflow")

WORDS = ["[PAD]", "[UNK]", "the", "ship", "##s", "sail", "a", "."]


def test_word_pieces_live_in_a_second_archive(make_lm, tmp_path):
    import keras_hub

    tokenizer = keras_hub.tokenizers.WordPieceTokenizer(
        WORDS, lowercase=True, oov_token="[UNK]"
    )
    tokenizer.start_token_id = tokenizer.end_token_id = None
    lm = make_lm(vocabulary_size=len(WORDS), num_layers=1)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(tokenizer)
    folder = export_saved_model(lm, tmp_path / "tale")
    main = verify_manifest(folder)
    assert main["text_archive"] == "tale_text"
    assert "generate" in main["signatures"]
    assert "generate_text" not in main["signatures"]
    second = tmp_path / "tale_text" / "1"
    manifest = verify_manifest(second)
    assert list(manifest["signatures"]) == ["generate_text"]
    assert "FastWordpieceTokenizeWithOffsets" in manifest["foreign_operations"]
    config = (tmp_path / "tale" / "models.config").read_text()
    assert config.count("base_path") == 2
    server = LocalSavedModel(second)  # keras_hub has loaded TensorFlow Text
    settings = {"temperature": 0.0, "max_new_tokens": 2}
    (text,) = generate_text(server, ["The ships"], **settings)
    assert text.startswith("the ships")


@pytest.mark.parametrize(
    ("kind", "size", "operation"),
    [
        ("byte-pair", 264, "RegexSplitWithOffsets"),
        ("sentence-piece", 290, "SentencepieceTokenizeOp"),
    ],
)
def test_byte_pairs_and_pieces_live_in_a_second_archive(
    make_lm, tmp_path, kind, size, operation
):
    tale = ["the ship sails, the wind turns\n"] * 9
    tokenizer = train_tokenizer(kind, tale, vocabulary_size=size)
    lm = make_lm(vocabulary_size=tokenizer.vocabulary_size(), num_layers=1)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(tokenizer)
    export_saved_model(lm, tmp_path / "tale")
    second = tmp_path / "tale_text" / "1"
    assert operation in verify_manifest(second)["foreign_operations"]
    lm.compile(sampler="greedy")
    prompts = ["the ship", "wind é"]
    settings = {"temperature": 0.0, "max_new_tokens": 3}
    texts = generate_text(LocalSavedModel(second), prompts, **settings)
    for prompt, text in zip(prompts, texts, strict=True):
        length = len(tokenizer(prompt)) + 3
        expected = lm.generate(prompt, max_length=length, stop_token_ids=None)
        # Bytes that are no character may be one sign together or one each.
        assert re.sub("\ufffd+", "?", text) == re.sub("\ufffd+", "?", expected)


@pytest.mark.parametrize(
    ("tokenizer", "prompt"),
    [
        (TransformerXLCharacterTokenizer("abcdehilnopst €"), "the ship €"),
        (
            TransformerXLWordTokenizer(
                ["<unk>", "<eos>", "the", "ship", "sails"]
            ),
            "the ship sails",
        ),
    ],
    ids=["character", "word"],
)
def test_characters_and_words_live_in_the_main_archive(
    make_lm, tmp_path, tokenizer, prompt
):
    lm = make_lm(vocabulary_size=tokenizer.vocabulary_size(), num_layers=1)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(tokenizer)
    folder = export_saved_model(lm, tmp_path / "tale")
    assert "generate_text" in verify_manifest(folder)["signatures"]
    assert not (tmp_path / "tale_text").exists()
    lm.compile(sampler="greedy")
    length = len(tokenizer(prompt)) + 4
    expected = lm.generate(prompt, max_length=length, stop_token_ids=None)
    settings = {"temperature": 0.0, "max_new_tokens": 4}
    (text,) = generate_text(LocalSavedModel(folder), [prompt], **settings)
    assert text == expected
