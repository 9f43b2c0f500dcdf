"""What a user reads when something is wrong, and the exit codes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import keras_txl
from keras_txl.cli.main import main

# What the verbs do on each backend: test_cli.py.
pytestmark = pytest.mark.backend("tensorflow")

VERBS = ["quickstart", "train", "evaluate", "generate", "score", "inspect"]
VERBS += ["compare"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be, " * 50)
    return path


def fails(arguments, capsys):
    """Standard error of a failing command; nothing may be on stdout."""
    assert main([str(argument) for argument in arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    # Lines of progress may come before.
    message = captured.err.splitlines()[-1]
    assert message.startswith("keras-txl: ")
    return message


def is_refused(arguments, capsys):
    """Standard error of wrong usage."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert exit_.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_help_says_every_option_and_an_example(verb, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([verb, "--help"])
    assert exit_.value.code == 0
    out = capsys.readouterr().out
    assert f"keras-txl {verb}" in out
    assert "examples:" in out
    options = re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE)
    assert "--debug" in options


def test_help_and_usage_errors_import_no_keras():
    source = str(Path(keras_txl.__file__).parents[1])
    code = (
        "import sys\n"
        "from keras_txl.cli.main import main\n"
        "for words in (['--help'], ['train', '--help'], ['nonsense']):\n"
        "    try:\n"
        "        main(words)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "heavy = {'keras', 'tensorflow', 'numpy', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stderr


def test_help_says_every_exit_code(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "0 success, 1 failure, 2 wrong usage, 130 interrupted" in out
    assert "143 terminated (SIGTERM)" in out


def test_version_is_told(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert keras_txl.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "required: VERB"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["train", "a.txt"], "required: --output"),
        (
            ["train", "a", "--output", "b", "--steps", "0"],
            "at least 1. Received: 0",
        ),
        (["train", "a", "--output", "b", "--steps", "x"], "an integer of"),
        (["train", "a", "--output", "b", "--minutes", "0"], "number above 0"),
        (["train", "a", "--output", "b", "--minutes", "nan"], "be a number"),
        (
            ["train", "a", "--output", "b", "--dropout", "1"],
            "below 1. Received: 1",
        ),
        (
            ["train", "a", "--output", "b", "--steps", "1", "--minutes", "1"],
            "not allowed with",
        ),
        (
            ["train", "a", "--output", "b", "--resume", "--overwrite"],
            "not allowed with",
        ),
        (["evaluate", "m"], "required: TEXT"),
        (
            ["evaluate", "m", "t", "--memory-length", "-1"],
            "at least 0. Received",
        ),
        (["evaluate", "m", "t", "--clamp-length", "0"], "at least 1. Received"),
        (
            ["evaluate", "m", "t", "--stride", "2", "--warmup", "2"],
            "leave --memory-length and --warmup out",
        ),
        (
            ["evaluate", "m", "t", "--dynamic-decay", "0.1"],
            "about the steps of --dynamic-learning-rate",
        ),
        (
            ["evaluate", "m", "t", "--dynamic-learning-rate", "1"]
            + ["--warmup", "2"],
            "which dynamic evaluation must not",
        ),
        (["compare", "a"], "required: --output"),
        (
            ["compare", "a", "--output", "b", "--position", "x"],
            "invalid choice",
        ),
        (["generate", "m"], "--prompt --prompt-file is required"),
        (
            ["generate", "m", "--prompt", "a", "--top-p", "2"],
            "at most 1. Received",
        ),
        (
            ["generate", "m", "--prompt", "a", "--temperature", "-1"],
            "at least 0. R",
        ),
        (["score", "m"], "give either texts or --file"),
        (["score", "m", "a", "--file", "b"], "give either texts or --file"),
        (["score", "m", "a", "--whole"], "--whole is about --file"),
        (["score", "m", "a", "--per-token"], "is about --candidates"),
        (["score", "m", "a", "--context", ""], "must hold some text"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, told, capsys):
    assert told in is_refused(arguments, capsys)


def test_a_missing_corpus_is_told_with_the_way_out(tmp_path, capsys):
    missing = tmp_path / "none.txt"
    for verb in (["train", missing], ["quickstart", "--corpus", missing]):
        err = fails([*verb, "--output", tmp_path / "out"], capsys)
        assert str(missing) in err
        assert "Pass a text file, a folder of text files or a glob" in err
    assert not (tmp_path / "out").exists()


def test_an_empty_corpus_is_told_with_the_way_out(tmp_path, capsys):
    empty = tmp_path / "empty.txt"
    empty.touch()
    err = fails(
        ["quickstart", "--corpus", empty, "--output", tmp_path / "out"], capsys
    )
    assert "There is no text to read" in err
    assert not (tmp_path / "out").exists()


def test_a_corpus_too_short_for_a_segment_is_told(tmp_path, capsys):
    short = tmp_path / "short.txt"
    short.write_text("a few words")
    for verb in (["train", short], ["quickstart", "--corpus", short]):
        err = fails([*verb, "--output", tmp_path / "out"], capsys)
        assert "is too short" in err
        assert "shorter segments" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["train", "quickstart"])
def test_an_output_with_files_is_left_alone(verb, text, tmp_path, capsys):
    output = tmp_path / "out"
    output.mkdir()
    (output / "precious").write_text("mine")
    corpus = [text] if verb == "train" else ["--corpus", text]
    err = fails([verb, *corpus, "--output", output], capsys)
    assert "--overwrite" in err
    assert [path.name for path in output.iterdir()] == ["precious"]


def test_an_output_that_is_a_file_is_refused(text, capsys):
    err = fails(["train", text, "--output", text, "--overwrite"], capsys)
    assert "which is a file" in err


def test_resume_without_a_run_is_told(text, tmp_path, capsys):
    output = tmp_path / "none"
    err = fails(["train", text, "--output", output, "--resume"], capsys)
    assert "Leave --resume out" in err
    assert not output.exists()


@pytest.mark.parametrize("verb", ["evaluate", "score", "generate", "inspect"])
def test_a_missing_model_is_told_with_the_way_out(verb, text, tmp_path, capsys):
    more = {
        "evaluate": [text],
        "score": ["a text"],
        "generate": ["--prompt", "a"],
        "inspect": [],
    }
    err = fails([verb, tmp_path / "none", *more[verb]], capsys)
    assert "no such model folder" in err
    assert "keras-txl train" in err


def test_a_folder_without_a_model_is_told(text, tmp_path, capsys):
    err = fails(["inspect", tmp_path], capsys)
    assert "must hold a config.json" in err


@pytest.mark.parametrize(
    "damage", ["config.json", "task.json", "model.weights.h5"]
)
def test_a_damaged_model_is_told(damage, preset, tmp_path, capsys):
    folder = tmp_path / "damaged"
    shutil.copytree(preset, folder)
    content = (folder / damage).read_bytes()
    (folder / damage).write_bytes(content[: len(content) // 2])
    err = fails(["inspect", folder], capsys)
    assert "The model folder is damaged" in err
    assert "Train again" in err


@pytest.fixture(scope="session")
def preset(make_lm, tmp_path_factory):
    from keras_txl.models import TransformerXLCausalLMPreprocessor
    from keras_txl.tokenizers import TransformerXLByteTokenizer

    folder = tmp_path_factory.mktemp("preset")
    lm = make_lm(vocabulary_size=256)
    lm.preprocessor = TransformerXLCausalLMPreprocessor(
        TransformerXLByteTokenizer()
    )
    lm.save_to_preset(str(folder))
    return folder


def test_a_prompt_longer_than_the_result_is_told(preset, capsys):
    err = fails(
        ["generate", preset, "--prompt", "abcd", "--max-length", 3], capsys
    )
    assert "--max-length 404" in err


def test_an_empty_prompt_is_told(preset, capsys):
    err = fails(["generate", preset, "--prompt", ""], capsys)
    assert "at least one byte" in err


def test_memory_that_is_missing_or_of_another_model_is_told(
    preset, make_lm, tmp_path, capsys
):
    memory = tmp_path / "memory"
    words = ["generate", preset, "--load-memory", memory]
    assert "There is no such memory file" in fails(words, capsys)
    from keras_txl.generation import save_memory

    other = make_lm()
    save_memory(memory, other.initial_memory(1), other)
    assert "belongs to another model" in fails(words, capsys)


def test_a_stop_of_several_tokens_is_told(preset, capsys):
    words = ["generate", preset, "--prompt", "a", "--stop", "ab"]
    assert "must be one token" in fails(words, capsys)


def test_top_k_beyond_the_vocabulary_is_told(preset, capsys):
    message = fails(
        ["generate", preset, "--prompt", "a", "--top-k", 1000], capsys
    )
    assert "--top-k must be at most 256" in message


@pytest.mark.parametrize("place", ["missing/tale", "."])
def test_memory_that_could_not_be_written_is_told_first(
    place, preset, tmp_path, capsys
):
    words = ["generate", preset, "--prompt", "a", "--save-memory"]
    message = fails([*words, tmp_path / place], capsys)
    assert "--save-memory must be a file in a folder that exists" in message


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        ("nonsense", "must be one of tensorflow, jax, torch"),
        ("jax", "pip install 'keras-txl[jax]'"),
        ("tensorflow", "pip install tensorflow, or set"),
    ],
)
def test_a_backend_that_is_not_there_is_told(
    backend, told, preset, capsys, monkeypatch
):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setattr(
        "keras_txl.cli.quiet_libraries.find_spec", lambda name: None
    )
    message = fails(["generate", preset, "--prompt", "a"], capsys)
    assert told in message


def test_a_run_interrupted_before_its_first_step_leaves_nothing(
    text, tmp_path, monkeypatch, capsys
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_txl.cli.training_run.measure_step", interrupt)
    text.write_text("to be or not to be, " * 500)
    output = tmp_path / "my run"
    code = main(["train", str(text), "--output", str(output), "--steps", "30"])
    assert code == 130
    assert "Traceback" not in capsys.readouterr().err
    assert not output.exists()


def test_a_prompt_file_that_is_no_text_is_told(preset, tmp_path, capsys):
    path = tmp_path / "latin"
    path.write_bytes(b"caf\xe9")
    err = fails(["generate", preset, "--prompt-file", path], capsys)
    assert "UTF-8" in err


def test_a_model_without_a_tokenizer_is_told(make_lm, text, tmp_path, capsys):
    make_lm().save_to_preset(str(tmp_path / "words"))
    err = fails(["evaluate", tmp_path / "words", text], capsys)
    assert "needs a model with a tokenizer" in err


def test_a_text_without_a_target_is_told(preset, tmp_path, capsys):
    path = tmp_path / "short.txt"
    path.write_text("x")
    err = fails(["evaluate", preset, path], capsys)
    assert "at least two tokens (bytes)" in err
    assert str(path) in err


def test_files_without_a_text_are_told(preset, tmp_path, capsys):
    path = tmp_path / "empty.txt"
    path.write_text("\n\n")
    for option in ("--file", "--candidates"):
        err = fails(["score", preset, option, path], capsys)
        assert "at least one text" in err
        assert str(path) in err
        err = fails(["score", preset, option, tmp_path / "none"], capsys)
        assert f"{option} cannot be read" in err


def test_a_context_without_memory_is_told(preset, capsys):
    arguments = ["score", preset, "a", "--context", "b", "--memory-length", 0]
    assert "Pass --memory-length N" in fails(arguments, capsys)


def test_debug_adds_the_traceback(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "none"), "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "keras-txl: There is no such model folder" in err
