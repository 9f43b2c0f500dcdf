"""Models over words and pieces, by the command line alone."""

import json
import math

import pytest

import keras_txl
from keras_txl.cli.main import main
from keras_txl.data.corpora import Corpus
from keras_txl.data.text_files import Document

pytestmark = pytest.mark.backend("tensorflow")

WORDS = "the ship sails and the wind turns ; a storm comes .\nné waits\n"
SIZES = [
    *("--segment-length", "8", "--memory-length", "8"),
    *("--batch-size", "2", "--num-layers", "1", "--num-heads", "2"),
    *("--hidden-dim", "16", "--intermediate-dim", "16"),
]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(WORDS * 60)
    return path


def make(kind, text, folder, *options):
    arguments = ["tokenizer", "train", "--kind", kind, "--corpus", str(text)]
    assert main([*arguments, "--output", str(folder), *options]) == 0


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    """A model over words with an adaptive softmax."""
    place = tmp_path_factory.mktemp("words")
    make("word", text, place / "words")
    arguments = [str(text), "--tokenizer", str(place / "words"), *SIZES]
    cutoffs = ["--cutoffs", "6,10", "--div-val", "2"]
    output = ["--output", str(place / "run"), "--steps", "150"]
    assert main(["train", *arguments, *cutoffs, *output]) == 0
    return place / "run"


def test_words_are_evaluated_in_perplexity(trained, text, capsys):
    arguments = ["evaluate", str(trained), str(text), "--json"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tokens"] == 60 * 16
    assert told["bytes"] == 60 * len(WORDS.encode())
    (row,) = told["results"]
    assert row["targets"] == 60 * 16 - 1
    assert row["perplexity"] == pytest.approx(math.exp(row["nats_per_token"]))
    assert row["perplexity"] < 10  # of 15 words
    bits = row["nats"] / math.log(2)
    targets = told["bytes"] - len("the")
    assert row["bits_per_byte"] == pytest.approx(bits / targets)


def test_words_come_whole_and_text_goes_on(trained, capsys):
    arguments = ["generate", str(trained), "--prompt", "the ship"]
    assert main([*arguments, "--max-new-tokens", "20"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("the ship")
    assert set(out.split()) <= {*WORDS.split(), "<unk>"}
    assert main([*arguments, "--max-length", "5", "--memory-length", "8"]) == 0
    words = capsys.readouterr().out.replace("\n", " <eos> ").split()
    assert len(words) == 5 + 1  # print ends the line
    assert main([*arguments, "--max-length", "2"]) == 1
    assert "a prompt of 2 tokens" in capsys.readouterr().err


def test_words_are_scored(trained, capsys):
    arguments = ["score", str(trained), "the ship sails", "ship the the"]
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["tokens"] for row in rows] == [2, 2]
    assert rows[0]["bytes"] == len(" ship sails")


def test_training_goes_on_with_its_tokenizer(trained, text, capsys):
    arguments = ["train", str(text), "--output", str(trained), "--resume"]
    tokenizer = ["--tokenizer", str(trained.parent / "words")]
    assert main([*arguments, *tokenizer, "--cutoffs", "6,10"]) == 0
    assert "validation loss: perplexity" in capsys.readouterr().out
    assert main([*arguments, "--cutoffs", "6,11"]) == 1
    assert "--cutoffs" in capsys.readouterr().err


def test_quickstart_works_with_pieces(text, tmp_path, capsys):
    folder, output = tmp_path / "tokenizer", tmp_path / "out"
    make("sentence-piece", text, folder, "--vocabulary-size", "300")
    arguments = ["--corpus", str(text), "--tokenizer", str(folder)]
    steps = ["--steps", "8", "--output", str(output)]
    assert main(["quickstart", *arguments, *steps, *SIZES]) == 0
    assert "The saved model has the same loss" in capsys.readouterr().out
    assert "memory 1x (8 tokens)" in (output / "report.md").read_text()


def test_characters_are_told_in_bits_each(text, tmp_path, capsys):
    make("character", text, tmp_path / "characters")
    arguments = [str(text), "--tokenizer", str(tmp_path / "characters")]
    output = ["--output", str(tmp_path / "run"), "--steps", "3"]
    assert main(["train", *arguments, *output, *SIZES]) == 0
    assert "bits per character" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "run"), str(text)]) == 0
    assert "bits/character" in capsys.readouterr().out


def test_pieces_are_encoded_once_and_trained_on(text, tmp_path, capsys):
    make("byte-pair", text, tmp_path / "pieces", "--vocabulary-size", "270")
    tokenizer = ["--tokenizer", str(tmp_path / "pieces")]
    encode = ["data", "encode", str(text), *tokenizer, "--output"]
    assert main([*encode, str(tmp_path / "ids")]) == 0
    assert f"bytes of text: {text.stat().st_size:,}" in capsys.readouterr().out
    assert main(["data", "check", str(tmp_path / "ids")]) == 0
    assert "documents: 1" in capsys.readouterr().out
    assert main([*encode, str(tmp_path / "ids")]) == 1
    assert "--overwrite" in capsys.readouterr().err

    ids = str(tmp_path / "ids")
    run = ["train", ids, "--output", str(tmp_path / "run"), "--steps", "24"]
    assert main([*run, *SIZES, *tokenizer]) == 1  # no validation
    assert "must both be encoded" in capsys.readouterr().err
    assert main([*run, *SIZES, "--validation", ids]) == 1  # bytes
    assert "the tokenizer that it was made with" in capsys.readouterr().err
    assert main([*run, *SIZES, *tokenizer, "--validation", ids]) == 0
    assert "validation loss: perplexity" in capsys.readouterr().out


def test_part_of_a_named_corpus_is_encoded(tmp_path, monkeypatch, capsys):
    parts = {p: (Document(p, p.encode()),) for p in ("train", "validation")}
    corpus = Corpus("lm1b", **parts, test=(Document("test", b"a test"),))
    monkeypatch.setattr(keras_txl.data, "load_corpus", lambda name: corpus)
    encode = ["data", "encode", "lm1b", "--output", str(tmp_path / "ids")]
    assert main([*encode, "--part", "test"]) == 0
    assert "bytes of text: 6" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["data", "encode", __file__, "--part", "test", *encode[3:]])
    assert "--part is for a corpus" in capsys.readouterr().err


def test_empty_file_is_not_encoded(tmp_path, capsys):
    (tmp_path / "empty.txt").touch()
    output = ["--output", str(tmp_path / "ids")]
    assert main(["data", "encode", str(tmp_path / "empty.txt"), *output]) == 1
    assert "no text to encode" in capsys.readouterr().err
    assert not (tmp_path / "ids").exists()


def test_vocabulary_of_another_program(tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text("<S>\n<UNK>\nthe\n")
    arguments = ["tokenizer", "train", "--kind", "word"]
    vocabulary = ["--vocabulary", str(tmp_path / "vocab.txt")]
    names = ["--unknown-token", "<UNK>", "--end-of-line", "<S>"]
    output = ["--output", str(tmp_path / "words")]
    start = ["--start-of-line", "<S>"]
    assert main([*arguments, *vocabulary, *names, *start, *output]) == 0
    assert "tokens: 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kind", "word"], "give either --corpus or --vocabulary"),
        (["--kind", "byte-pair", "--corpus", "."], "needs --vocabulary-size"),
        (["--kind", "byte", "--lowercase"], "are about words"),
        (["--kind", "byte", "--unknown-token", "?"], "is about characters"),
        (["--kind", "byte", "--vocabulary", "a"], "is about characters"),
    ],
)
def test_wrong_usage_is_told_at_once(options, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["tokenizer", "train", "--output", "out", *options])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_missing_tokenizer_is_told_at_once(text, tmp_path, capsys):
    arguments = ["train", str(text), "--tokenizer", str(tmp_path)]
    assert main([*arguments, "--output", str(tmp_path / "run")]) == 1
    assert "keras-txl tokenizer train" in capsys.readouterr().err
