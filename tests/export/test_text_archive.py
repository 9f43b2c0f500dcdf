"""A tokenizer of another library's operations gets an archive of its own."""

import pytest

from keras_txl.export import export_saved_model
from keras_txl.export import verify_manifest
from keras_txl.export.serving import LocalSavedModel
from keras_txl.export.serving import generate_text

pytestmark = pytest.mark.backend("tensorflow")

WORDS = ["[PAD]", "[UNK]", "the", "ship", "##s", "sail", "a", "."]


def test_word_pieces_live_in_a_second_archive(make_lm, tmp_path):
    import keras_hub

    from keras_txl.models import TransformerXLCausalLMPreprocessor

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
