"""Files of tokenizers beside an ONNX model, read by other libraries.

They must give the ids and the texts that the tokenizer itself gives.
"""

import importlib.util

import pytest
import sentencepiece
import tokenizers

from keras_txl.export.tokenizer_files import write_tokenizer
from keras_txl.tokenizers import TransformerXLByteTokenizer
from keras_txl.tokenizers import TransformerXLCharacterTokenizer
from keras_txl.tokenizers import TransformerXLWordTokenizer
from keras_txl.tokenizers import train_tokenizer

pytestmark = pytest.mark.backend("tensorflow")

CORPUS = ["the ship sails, the wind turns\n it's naïve  \U0001f642\n"] * 9
WORDS = ["<unk>", "<eos>", "<S>", "the", "ship", "sails", "<eos>s", "É", "é"]
TEXTS = (
    "the ship  sails\n",
    " the\n\nship\r\nÉ é sank\r the <eos>s",
    "the\x1cship\u3000sails\t",
    "\nthe",
    "the",
    "",
)


def words(**settings):
    return TransformerXLWordTokenizer(WORDS, **settings)


@pytest.mark.parametrize(
    ("make", "texts", "kind"),
    [
        (TransformerXLByteTokenizer, [*CORPUS, *TEXTS, "\x00"], "bytes"),
        (
            lambda: TransformerXLCharacterTokenizer("é a\n€\u2028\U0001f642"),
            ["a é\n\na\u2028€ \U0001f642", ""],
            "characters",
        ),
        (
            lambda: TransformerXLCharacterTokenizer("ab?", unknown_token="?"),
            ["abxé\nab"],
            "characters",
        ),
        (words, TEXTS, "words"),
        (lambda: words(lowercase=True), TEXTS, "words"),
        (lambda: words(end_of_line_token=None), TEXTS, "words"),
        (lambda: words(start_of_line_token="<S>"), TEXTS, "words"),
        (
            lambda: words(end_of_line_token="<S>", start_of_line_token="<S>"),
            TEXTS,
            "words",
        ),
        (
            lambda: train_tokenizer("byte-pair", CORPUS, vocabulary_size=280),
            [*CORPUS, *TEXTS, "they'll re-sail \n\n  x"],
            "byte-pairs",
        ),
        (
            lambda: train_tokenizer(
                "sentence-piece", CORPUS, vocabulary_size=290
            ),
            [*CORPUS, *TEXTS],
            "sentence-piece",
        ),
    ],
    ids=[
        *("bytes", "characters", "unknown-character", "words", "lowercase"),
        *("no-lines", "line-starts", "one-token", "byte-pairs", "pieces"),
    ],
)
def test_other_libraries_read_the_same_ids_and_texts(
    make, texts, kind, tmp_path, repository
):
    tokenizer = make()
    assert write_tokenizer(tokenizer, tmp_path) == kind
    names = (tmp_path / "vocab.txt").read_text("utf-8").split("\n")
    assert len(names) == tokenizer.vocabulary_size() + 1
    if kind == "sentence-piece":
        path = str(tmp_path / "tokenizer.model")
        other = sentencepiece.SentencePieceProcessor(model_file=path)
        encode, decode = other.encode, other.decode
    else:
        path = str(tmp_path / "tokenizer.json")
        other = tokenizers.Tokenizer.from_file(path)
        encode, decode = lambda text: other.encode(text).ids, other.decode
    driver = driver_of(repository).Text(tmp_path, {"tokenizer": {"kind": kind}})
    for text in texts:
        ids = [int(token) for token in tokenizer(text)]
        expected = tokenizer.detokenize(ids)
        assert encode(text) == ids, text
        assert decode(ids) == expected, text
        assert driver.encode(text) == ids
        for cut in range(1, len(ids) + 1):
            said = "".join(driver.decode_stream(ids[cut:], ids[:cut]))
            if not said.startswith("\ufffd"):  # cut inside of a character
                assert expected.endswith(said)
        if ids:
            first = tokenizer.detokenize(ids[:1])
            if "\ufffd" not in first:
                said = driver.decode_stream(ids[1:], ids[:1])
                assert first + "".join(said) == expected


def driver_of(repository):
    path = repository / "export" / "edge" / "python" / "texts.py"
    spec = importlib.util.spec_from_file_location("txl_texts", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_characters_that_are_missing_are_an_error(tmp_path):
    write_tokenizer(TransformerXLCharacterTokenizer("ab"), tmp_path)
    other = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    with pytest.raises(Exception, match="UNK"):
        other.encode("abc")


def test_a_tokenizer_without_files_is_refused_by_the_driver(
    tmp_path, repository
):
    assert write_tokenizer(object(), tmp_path) == "other"
    assert not list(tmp_path.iterdir())
    driver = driver_of(repository)
    for told in ({"kind": "other"}, None):
        with pytest.raises(ValueError, match="Use `generate_ids`"):
            driver.Text(tmp_path, {"tokenizer": told}).encode("a")
