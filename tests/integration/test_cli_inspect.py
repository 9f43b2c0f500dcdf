"""`keras-txl inspect` with a text: a report, and what it refuses."""

import json

import pytest

from keras_txl.cli.main import main
from keras_txl.models import TransformerXLCausalLMPreprocessor
from keras_txl.tokenizers import TransformerXLByteTokenizer

# What the verb calls is tested on each backend.
pytestmark = pytest.mark.backend("tensorflow")

TEXT = "the ship sails and the wind turns; a storm comes, the ship waits. "


@pytest.fixture(scope="module")
def model(make_lm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    lm = make_lm(vocabulary_size=256, num_layers=1)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    lm.save_to_preset(str(folder))
    return folder


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def inspect(*words):
    return main(["inspect", *map(str, words)])


def test_a_report_of_texts(model, text, tmp_path, capsys):
    output = tmp_path / "report"
    other = tmp_path / "other.txt"
    other.write_text(TEXT[::-1])
    words = [model, "--text", text, "--text", other, "--output", output]
    words += ["--tokens", len(TEXT) + 10, "--segment-length", 8]
    assert inspect(*words) == 0
    captured = capsys.readouterr()
    assert "the loss from " in captured.out
    assert "over 2 documents" in captured.out
    assert "open index.html there" in captured.out
    assert captured.err.splitlines() == ["Reading ..."]
    told = json.loads((output / "report.json").read_text())
    assert told["unit"] == "byte"
    assert told["memory_length"] == 6  # as the model was built
    assert told["curve"]["6"]["document_targets"] == [len(TEXT) - 1, 9]
    assert told["model"]["configuration"]["hidden_dim"] == 8
    page = (output / "index.html").read_text()
    assert "reads text.txt, other.txt</h1>" in page
    assert inspect(*words) == 1  # nothing is overwritten unasked
    assert "--overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--text", "a.txt"], "--text and --output go together"),
        (["--output", "out"], "--text and --output go together"),
        (["--text", "a.txt", "--output", "out", "--json"], "report.json"),
        (["--text", "a.txt", "--output", "out", "--tokens", "0"], "at least 1"),
    ],
)
def test_half_a_report_is_wrong_usage(words, said, capsys):
    with pytest.raises(SystemExit) as exit_:
        inspect("model", *words)
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err


def test_texts_that_leave_nothing_are_told(model, text, tmp_path, capsys):
    words = [model, "--output", tmp_path / "out", "--text"]
    (tmp_path / "short.txt").write_text("a")
    for more, said in (
        ([tmp_path / "none.txt"], "no such text"),
        ([tmp_path / "short.txt"], "at least two tokens"),
        ([text, "--tokens", 1], "--tokens 1, which leave none"),
    ):
        assert inspect(*words, *more) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_without_memory_is_told(make_lm, text, tmp_path, capsys):
    lm = make_lm(vocabulary_size=256, num_layers=1, memory_length=0)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    lm.save_to_preset(str(tmp_path / "model"))
    words = [tmp_path / "model", "--text", text, "--output", tmp_path / "out"]
    assert inspect(*words) == 1
    assert "Pass --memory-length N" in capsys.readouterr().err
